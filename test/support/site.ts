import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { tierNames } from '../../src/discovery/jobs-folder.ts';
import { dueChore } from '../../src/schedule/due.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { commandPath, type Ended, startProcess } from './command.ts';
import { engine } from './engines/engines.ts';
import { type FileContent, makeFakeCrontab, makeTemporaryRoot } from './root.ts';
import { makeStateOf } from './store.ts';

const versions = mkdtempSync(join(tmpdir(), 'runner-versions-'));
/** The package as npm puts it into a site: the very version of these tests, and another one. */
export const present = join(versions, 'present');
export const other = join(versions, 'other');

beforeAll(() => {
  for (const version of [present, other]) {
    mkdirSync(version);
    cpSync(dirname(commandPath), join(version, 'dist'), { recursive: true });
    cpSync(new URL('../../package.json', import.meta.url).pathname, join(version, 'package.json'));
  }
  rewrite(other);
});
afterAll(() => rmSync(versions, { recursive: true }));

/** Of another version every chunk has another hash, and nothing answers to what the present one asks for. */
function rewrite(version: string): void {
  const dist = join(version, 'dist');
  const rename = (text: string): string =>
    text
      .replaceAll(/(?<=[\w)]-)([\w-]{8})(?=\.[cm]js\b)/g, (hash) => [...hash].reverse().join(''))
      .replaceAll(packageJson.version, '99.0.0');
  for (const name of readdirSync(dist).filter((each) => /\.[cm]js$/.test(each))) {
    const path = join(dist, name);
    if (name === 'transform-typescript.cjs') continue;
    writeFileSync(path, rename(readFileSync(path, 'latin1')), 'latin1');
    renameSync(path, join(dist, rename(name)));
  }
}

/** A root with the package in its own `node_modules`. */
export function makeSite(files: Readonly<Record<string, FileContent>>): string {
  const root = makeTemporaryRoot(files);
  mkdirSync(join(root, 'node_modules'));
  symlinkSync(
    new URL('../../node_modules/better-sqlite3', import.meta.url).pathname,
    join(root, 'node_modules/better-sqlite3'),
  );
  install(root, present);
  return root;
}

/** Where that is. */
export const packageOf = (root: string): string => join(root, 'node_modules/folder-runner');

export function install(root: string, version: string): void {
  const dist = join(packageOf(root), 'dist');
  mkdirSync(dist, { recursive: true });
  linkSync(join(version, 'package.json'), join(packageOf(root), 'package.json'));
  for (const name of readdirSync(join(version, 'dist'))) linkSync(join(version, 'dist', name), join(dist, name));
}

/** As npm does it: what was there is moved away, and removed once the new one is there. */
export function replace(root: string): void {
  const old = join(root, 'node_modules/.folder-runner-old');
  renameSync(packageOf(root), old);
  install(root, other);
  rmSync(old, { recursive: true });
}

export function remove(root: string): void {
  rmSync(packageOf(root), { recursive: true });
}

/** The command of a site's own package, as its crontab calls it; with options of Node's, if any. */
export function callOwn(
  root: string,
  args: readonly string[],
  node = process.execPath,
  options: readonly string[] = [],
): Promise<Ended> {
  const env = { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' };
  return startProcess(node, [...options, join(packageOf(root), 'dist/bin.cjs'), ...args], { cwd: root, env }).ended;
}

/** The file of a run's whole output, if there is more than is shown. */
export function isKept(root: string, file: string | null): boolean {
  return file !== null && readdirSync(stateFolderOf(root).output).includes(file);
}

const clients = join(import.meta.dirname, '../../clients');
const programs = join(import.meta.dirname, '../command/clients');

/** What a site in this language does, and what it calls things. */
const languages = [
  {
    language: 'PHP',
    command: ['/usr/bin/php', join(programs, 'site.php')],
    delay: 'retryDelay',
    noTime: "runAt must be a DateTimeInterface, such as new DateTimeImmutable('+5 minutes').",
  },
  {
    language: 'Python',
    command: ['python3', join(programs, 'site.py')],
    delay: 'retry_delay',
    noTime: 'run_at must be a datetime with a time zone, such as datetime.now(timezone.utc).',
  },
].map((each) => ({ ...each, isHere: spawnSync(each.command[0] as string, ['--version']).status === 0 }));

/** Those that are installed here. */
export function siteLanguages() {
  for (const { language, isHere } of languages) {
    if (!isHere) console.warn(`NOT TESTED: the file for ${language}, which is not installed here; .ci/run has it.`);
  }
  return languages.filter(({ isHere }) => isHere);
}

/** A site's program in its language, whose folder is the root. */
export function runSite(
  root: string,
  [program = '', file = '']: readonly string[],
  ...args: readonly (string | number)[]
) {
  const env = { PATH: process.env.PATH, HOME: root, PYTHONIOENCODING: 'utf-8', PYTHONDONTWRITEBYTECODE: '1' };
  const ended = spawnSync(program, [file, clients, ...args.map(String)], { cwd: root, env, encoding: 'utf8' });
  return { status: ended.status, stderr: ended.stderr, answers: ended.stdout.split('\n').slice(0, -1) };
}

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

export const repository = new URL('../../', import.meta.url).pathname.replace(/\/$/, '');

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
const sqliteShell = join(repository, 'test/support/engines/sqlite-shell.ts');

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

/** Pages tell of a root `/home/me/site` with Node in `/usr/bin`, on a host called web3, of a user called ada. */
function withoutPlace(text: string, root: string): string {
  return text
    .replaceAll(root, '/home/me/site')
    .replaceAll(repository, '/home/me/site/node_modules/folder-runner')
    .replaceAll(process.execPath, '/usr/bin/node')
    .replaceAll(`paused by ${userInfo().username}`, 'paused by ada')
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

/** As if `runner due` had seen the tiers of a root long ago: one that no call has seen begins with its next period. */
export async function seeTiers(root: string): Promise<void> {
  const store = await engine.openStore(makeStateOf(root));
  for (const tier of tierNames(root)) await store.chores.setDone(dueChore(tier), 0);
  await store.close();
}

/** A root whose tiers are all due. */
export async function makeSeenRoot(files: Readonly<Record<string, FileContent>>): Promise<string> {
  const root = makeTemporaryRoot(files);
  await seeTiers(root);
  return root;
}
