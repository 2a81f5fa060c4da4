import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { commandPath } from '../calls/run-command.ts';
import { makeFakeCrontab } from './fake-crontab.ts';
import { makeTemporaryRoot } from './temporary-root.ts';

/**
 * Examples in the documentation, run as a reader would run them. How a page says what is what:
 *
 * - "`jobs/hourly/x.ts`:" at the end of the paragraph before a block: the block is that file.
 * - an `sh` block is run by a shell in the root; its exit code is 0 unless it says `# exits 1`.
 * - a block without a language right after it is what it prints; `…` there stands for anything.
 */
export interface Example {
  /** `docs/settings.md:12` */
  readonly place: string;
  readonly language: string;
  readonly content: string;
  /** The file that it is said to be, relative to the root. */
  readonly file: string | null;
  /** What it is said to print. */
  readonly shown: string | null;
}

export const repository = new URL('../../../', import.meta.url).pathname.replace(/\/$/, '');

/** The blocks of a page, in their order. */
export function readExamples(page: string): Example[] {
  const lines = readFileSync(join(repository, page), 'utf8').split('\n');
  const fences = findFences(lines);
  return fences.map((fence, index) => ({
    place: `${page}:${fence.start + 1}`,
    language: fence.language,
    content: contentOf(lines, fence),
    file: namedFile(lines, fence.start),
    shown: fence.language === 'sh' ? shownAfter(lines, fence, fences[index + 1]) : null,
  }));
}

interface Fence {
  readonly start: number;
  readonly end: number;
  readonly indent: number;
  readonly language: string;
}

function findFences(lines: readonly string[]): Fence[] {
  const fences: Fence[] = [];
  for (let start = 0; start < lines.length; start += 1) {
    const [, indent, language] = /^( *)```(\w*)/.exec(lines[start] ?? '') ?? [];
    if (indent === undefined || language === undefined) continue;
    const end = lines.findIndex((line, at) => at > start && line.trim() === '```');
    if (end === -1) throw new Error(`line ${start + 1} opens a block that nothing closes`);
    fences.push({ start, end, indent: indent.length, language });
    start = end;
  }
  return fences;
}

function contentOf(lines: readonly string[], { start, end, indent }: Fence): string {
  return `${lines
    .slice(start + 1, end)
    .map((line) => line.slice(indent))
    .join('\n')}\n`;
}

function namedFile(lines: readonly string[], start: number): string | null {
  const before = lines.slice(0, start).findLast((line) => line.trim() !== '') ?? '';
  return /`([\w./-]+\.\w+)`:$/.exec(before)?.[1] ?? null;
}

function shownAfter(lines: readonly string[], fence: Fence, next: Fence | undefined): string | null {
  if (next === undefined || next.language !== '') return null;
  const between = lines.slice(fence.end + 1, next.start);
  return between.every((line) => line.trim() === '') ? contentOf(lines, next) : null;
}

/** Where a page's examples are run. */
export interface ExamplePlace {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * An empty root in which `npx folder-runner` and `runner` are the built command, the package can be
 * imported, and `crontab` is a fake one: no example may touch the real one.
 */
export function makeExamplePlace(): ExamplePlace {
  const root = makeTemporaryRoot();
  rmSync(join(root, 'jobs'), { recursive: true });
  const { env } = makeFakeCrontab();
  const commands = join(env.HOME as string, 'bin');
  const node = `exec '${process.execPath}' '${commandPath}' "$@"`;
  writeCommand(commands, 'runner', node);
  writeCommand(commands, 'npx', `case "$1" in runner | folder-runner) shift ;; *) exit 127 ;; esac\n${node}`);
  writeCommand(commands, 'sqlite3', `exec '${process.execPath}' '${sqliteShell}' "$@"`);
  mkdirSync(join(root, 'node_modules/.bin'), { recursive: true });
  writeCommand(join(root, 'node_modules/.bin'), 'runner', node);
  symlinkSync(repository, join(root, 'node_modules/folder-runner'));
  return { root, env: { ...env, TZ: 'UTC', COLUMNS: '110' } };
}

function writeCommand(folder: string, name: string, script: string): void {
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** Not every machine has `sqlite3`; this one answers queries, and fails where that would. */
const sqliteShell = join(repository, 'test/support/places/sqlite-shell.ts');

/** Writes a file of an example; a new `runner.config.*` takes the place of the one before. */
export function writeExampleFile({ root }: ExamplePlace, file: string, content: string): void {
  if (file.startsWith('runner.config.')) removeSettings(root);
  const path = join(root, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  chmodSync(path, content.startsWith('#!') ? 0o755 : 0o644);
}

function removeSettings(root: string): void {
  for (const name of readdirSync(root)) {
    if (name.startsWith('runner.config.')) rmSync(join(root, name));
  }
}

/** Runs an `sh` example; fails unless it ends and prints as its page says. Returns what it printed. */
export function runExample({ root, env }: ExamplePlace, example: Example): string {
  const { status, stdout } = spawnSync('sh', ['-c', `exec 2>&1\n${example.content}`], {
    cwd: root,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 50_000,
  });
  const expected = Number(/# exits (\d+)/.exec(example.content)?.[1] ?? 0);
  expect(status, `${example.place} ends with this exit code; it printed:\n${stdout}`).toBe(expected);
  if (example.shown !== null) expectShown(example.shown, stdout, root, example.place);
  return stdout;
}

/** Compares what a page shows with what was printed, whatever the time, the place and the figures. */
export function expectShown(shown: string, printed: string, root: string, place: string): void {
  const [wanted, found] = [withoutFigures(shown), withoutFigures(withoutPlace(printed, root))];
  const parts = wanted.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  if (parts.length === 1) expect(found, place).toBe(wanted);
  else expect(found, place).toMatch(new RegExp(`^${parts.join('[\\s\\S]*')}$`));
}

/** Pages tell of a root `/home/me/site` with Node in `/usr/bin`, on a host called web3. */
function withoutPlace(text: string, root: string): string {
  return text
    .replaceAll(root, '/home/me/site')
    .replaceAll(repository, '/home/me/site/node_modules/folder-runner')
    .replaceAll(process.execPath, '/usr/bin/node')
    .replaceAll(new RegExp(`\\bon ${hostname()}\\b`, 'g'), 'on web3');
}

const figures: readonly (readonly [RegExp, string])[] = [
  [/\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?/g, '#'],
  [/\b\d\d? [A-Z][a-z]{2} \d\d:\d\d\b/g, '#'],
  [/<?\b\d+(?:\.\d+)?(?:ms|s|m|h)(?: \d+(?:ms|s|m))?\b/g, '#'],
  [/\b\d+(?:\.\d+)?(?:B|KB|MB|GB)\b/g, '#'],
  // A figure that is not always known.
  [/(?<= )–(?= |$)/gm, '#'],
  [/[▁▂▃▄▅▆▇█]+/g, '#'],
  [/\bpid( +)\d+/g, 'pid #'],
  [/\bsha256 [0-9a-f]+/g, 'sha256 #'],
  [/\bv\d+\.\d+\.\d+\b/g, '#'],
  [/probe-[\d.]+\.cjs:\d+:\d+/g, 'probe.cjs'],
  [/^ *[\d*]\S* \S+ \S+ \S+ \S+ (?=(?:\S*\/node|sh \S*\/cron) )/gm, '# '],
  // Columns are as wide as what is in them.
  [/ {2,}/g, '  '],
  [/ +$/gm, ''],
];

function withoutFigures(text: string): string {
  return figures.reduce((known, [form, name]) => known.replace(form, name), text).trim();
}
