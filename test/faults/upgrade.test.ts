import { spawn } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { openQueue } from '../../src/index.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { findViolations } from '../support/invariants.ts';
import { nodeScript, shellScript } from '../support/invariants-evidence.ts';
import { queryLog } from '../support/open-log.ts';
import { nodeHandler, programHandler } from '../support/queue-handlers.ts';
import { commandPath, type Ended } from '../support/run-command.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../support/temporary-root.ts';
import { sample, someAtATime } from './rounds.ts';

const REPLACED = 'the package was replaced; the next pass goes on';

/** The package as npm puts it into a site: the very version of these tests, and another one. */
const versions = mkdtempSync(join(tmpdir(), 'runner-versions-'));
const present = join(versions, 'present');
const other = join(versions, 'other');

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
function makeSite(files: Readonly<Record<string, FileContent>>): string {
  const root = makeTemporaryRoot(files);
  mkdirSync(join(root, 'node_modules'));
  symlinkSync(
    new URL('../../node_modules/better-sqlite3', import.meta.url).pathname,
    join(root, 'node_modules/better-sqlite3'),
  );
  install(root, present);
  return root;
}

const packageOf = (root: string): string => join(root, 'node_modules/folder-runner');

function install(root: string, version: string): void {
  const dist = join(packageOf(root), 'dist');
  mkdirSync(dist, { recursive: true });
  linkSync(join(version, 'package.json'), join(packageOf(root), 'package.json'));
  for (const name of readdirSync(join(version, 'dist'))) linkSync(join(version, 'dist', name), join(dist, name));
}

/** As npm does it: what was there is moved away, and removed once the new one is there. */
function replace(root: string): void {
  const old = join(root, 'node_modules/.folder-runner-old');
  renameSync(packageOf(root), old);
  install(root, other);
  rmSync(old, { recursive: true });
}

function remove(root: string): void {
  rmSync(packageOf(root), { recursive: true });
}

interface Call {
  readonly ended: Promise<Ended>;
}

function call(root: string, args: readonly string[], node = process.execPath): Call {
  const env = { HOME: root, PATH: '/usr/bin:/bin', SHELL: '/bin/sh' };
  const child = spawn(node, [join(packageOf(root), 'dist/bin.cjs'), ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (text.stdout += chunk));
  child.stderr.on('data', (chunk) => (text.stderr += chunk));
  return {
    ended: new Promise((resolve) => child.once('close', (status) => resolve({ status, ...text }))),
  };
}

const longOutput = executable('#!/bin/sh\necho head\nhead -c 3000000 /dev/zero | tr "\\0" x\necho\necho tail\n');

const scripts: Readonly<Record<string, FileContent>> = {
  'jobs/hourly/a.sh': shellScript({ lastsMs: 200 }),
  'jobs/hourly/b-fails.mjs': "console.log('begun');\nthrow new TypeError('on purpose');\n",
  'jobs/hourly/c.mjs': nodeScript({ lastsMs: 200 }),
  'jobs/hourly/d-typed.ts': "export default async () => console.log('typed' as string);\n",
  'jobs/hourly/e-long.sh': longOutput,
  'jobs/hourly/f.mjs': nodeScript({ lastsMs: 300 }),
  'jobs/hourly/g.sh': shellScript({ lastsMs: 200 }),
  'jobs/queue/warm.mjs': nodeHandler({ lastsMs: 60 }),
  'jobs/queue/typed.ts': 'enum Colour { Red }\nexport default async () => ({ colour: Colour.Red as number });\n',
  'jobs/queue/apart.mjs': nodeHandler({ tags: ['@isolate'], lastsMs: 60 }),
  'jobs/queue/program.sh': programHandler({ lastsMs: 60 }),
};

async function addJobs(root: string): Promise<void> {
  const queue = await openQueue({ root });
  for (let index = 0; index < 4; index += 1) {
    for (const name of ['warm', 'apart', 'program', 'typed']) await queue.add(name, { index });
  }
  await queue.close();
}

interface Round {
  readonly args: readonly string[];
  readonly way: string;
  readonly upgrade: (root: string) => void;
  readonly tenth: number;
}

const commands = [['hourly'], ['work']];
const ways = { replace, remove };

const rounds: readonly Round[] = commands.flatMap((args) =>
  Object.entries(ways).flatMap(([way, upgrade]) =>
    Array.from({ length: 10 }, (_, tenth) => ({ args, way, upgrade, tenth })),
  ),
);

test('the package is replaced or removed at every tenth of a pass and of a worker', async () => {
  const durationsMs = new Map<string, number>();
  for (const args of commands) {
    const root = makeSite(scripts);
    await addJobs(root);
    const before = performance.now();
    await call(root, args).ended;
    durationsMs.set(String(args), performance.now() - before);
  }
  const told = await someAtATime(sample(rounds), async (round) => {
    const problems = await playRound(round, durationsMs.get(String(round.args)) ?? 0);
    return problems.map((problem) => `${round.args} ${round.way} at ${round.tenth}/10: ${problem}`);
  });
  expect(told.flat()).toEqual([]);
}, 240_000);

async function playRound({ args, upgrade, tenth }: Round, durationMs: number): Promise<string[]> {
  const root = makeSite(scripts);
  await addJobs(root);
  const first = call(root, args);
  await sleep((durationMs * tenth) / 10);
  upgrade(root);
  const ended = await first.ended;
  rmSync(packageOf(root), { recursive: true, force: true });
  install(root, other);
  const problems = [...checkEnd(root, ended), ...checkRecords(root)];
  for (const next of [['hourly'], ['work', '--for', '20s', '--wait', '2s']]) {
    const { status, stderr } = await call(root, next).ended;
    const isTold = stderr === '' || /^runner: 1 of \d+ (scripts|runs) of hourly/.test(stderr);
    if ((status !== 0 && status !== 1) || !isTold) problems.push(`then ${next} ended with ${status}: ${stderr}`);
  }
  return [...problems, ...checkRecords(root), ...checkDone(root), ...findViolations(root)];
}

/** What a failing script has printed stands behind `  | `. */
function checkEnd(root: string, { status, stdout, stderr }: Ended): string[] {
  // Node was not there yet when its file went: nothing of ours has run.
  if (/^Error: Cannot find module '.*\/dist\/bin\.cjs'$/m.test(stderr)) return [];
  const own = stderr.split('\n').filter((line) => !line.startsWith('  | '));
  const stack = own.filter((line) => /^ {4}at /.test(line));
  const failed = readRuns(root).filter(({ outcome }) => outcome === 'failed');
  const isTold = stderr.includes('did not succeed') && stderr.includes('TypeError: on purpose');
  return [
    ...(status === 0 || status === 1 ? [] : [`exit code ${status}: ${stderr}`]),
    ...(stack.length > 0 ? [`a stack: ${stderr}`] : []),
    ...(failed.length > 0 && !isTold ? [`no summary of what has failed: ${stderr}`] : []),
    ...(failed.length > 0 && status !== 1 ? [`exit code ${status}, though a script has failed`] : []),
    ...(stdout === '' ? [] : [`stdout: ${stdout}`]),
  ];
}

interface Run {
  readonly script: string;
  readonly outcome: string;
  readonly error_name: string | null;
  readonly output: string;
  readonly output_file: string | null;
  readonly attempt: number;
}

function readRuns(root: string): Run[] {
  if (!readdirSync(root).includes('.runner')) return [];
  return queryLog<Run>(root, 'select script, outcome, error_name, output, output_file, attempt from runs');
}

/** Nothing is told as what it was not, nothing counts as a try that was none, and nothing is left out. */
function checkRecords(root: string): string[] {
  return readRuns(root).flatMap((run) => {
    const { script, outcome, error_name, output, output_file, attempt } = run;
    const isFailing = script === 'hourly/b-fails';
    const expected = isFailing ? 'failed' : 'succeeded';
    const isLong = script === 'hourly/e-long';
    return [
      ...(outcome === expected || outcome === 'released' ? [] : [`${script} ${outcome}: ${JSON.stringify(run)}`]),
      ...(attempt === 1 ? [] : [`${script} was tried ${attempt} times`]),
      ...(isFailing && outcome === 'failed' && error_name !== 'TypeError' ? [`${script}: ${error_name}`] : []),
      ...(isLong && !/^head\n.*left out.*\ntail\n$/s.test(output) ? [`${script}: ${output.slice(0, 50)}`] : []),
      ...(isLong && !isKept(root, output_file) ? [`${script}: its whole output is not kept`] : []),
    ];
  });
}

function isKept(root: string, file: string | null): boolean {
  return file !== null && readdirSync(stateFolderOf(root).output).includes(file);
}

function checkDone(root: string): string[] {
  const open = queryLog<{ name: string; state: string }>(
    root,
    "select name, state from jobs where state not in ('finished', 'failed')",
  );
  const ran = new Set(readRuns(root).map(({ script }) => script));
  const missing = Object.keys(scripts)
    .map((path) => path.slice(5).replace(/\.\w+$/, ''))
    .filter((name) => !ran.has(name));
  return [
    ...open.map(({ name, state }) => `${name} is still ${state}`),
    ...missing.map((name) => `${name} has never run`),
  ];
}

/** A script that takes the package away, as if somebody did while it ran. */
const takesPackage = (more = ''): FileContent =>
  executable(`#!/bin/sh\nrm -r "$RUNNER_ROOT/node_modules/folder-runner"\n${more}`);

test('without its package a pass starts nothing more, says so, and the next one goes on', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': takesPackage(),
    'jobs/hourly/b.mjs': nodeScript(),
    'jobs/hourly/c.sh': shellScript(),
  });
  expect(await call(root, ['hourly']).ended).toEqual({ status: 0, stdout: '', stderr: `runner: ${REPLACED}\n` });
  const waiting = { state: 'queued', attempts: 0, reason: REPLACED };
  expect(readJobs(root)).toMatchObject([{ name: 'hourly/a', state: 'finished' }, waiting, waiting]);

  writeFileSync(join(root, 'jobs/hourly/a.sh'), '');
  install(root, other);
  expect(await call(root, ['hourly']).ended).toMatchObject({ status: 0, stderr: '' });
  expect(readJobs(root).map(({ state }) => state)).toEqual(['finished', 'finished', 'finished']);
  expect(findViolations(root)).toEqual([]);
});

test('what has failed when the package went is told and kept as ever', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': takesPackage(
      'echo head; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo tail; sleep 0.3; exit 3',
    ),
  });
  const { status, stderr } = await call(root, ['hourly']).ended;
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^runner: 1 of 1 scripts of hourly did not succeed .*\n\nhourly\/a failed after .*: exit code 3\n {2}\| /,
  );
  const [run] = readRuns(root);
  expect(run).toMatchObject({ outcome: 'failed', output: expect.stringMatching(/^head\n.*left out.*\ntail\n$/s) });
  expect(isKept(root, run?.output_file ?? null)).toBe(true);
});

test('without its package a worker leaves the other jobs as they are', async () => {
  const tags = ['@isolate'];
  const root = makeSite({
    'jobs/queue/a.sh': takesPackage(),
    'jobs/queue/b.mjs': nodeHandler({ tags }),
    'jobs/queue/c.sh': programHandler(),
  });
  const queue = await openQueue({ root });
  for (const name of ['a', 'b', 'c']) await queue.add(name, {});
  await queue.close();
  expect(await call(root, ['work', '--for', '20s']).ended).toEqual({ status: 0, stdout: '', stderr: '' });
  const waiting = { state: 'queued', attempts: 0 };
  expect(readJobs(root)).toMatchObject([{ name: 'a', state: 'finished' }, waiting, waiting]);
  expect(findViolations(root)).toEqual([]);
});

test('without its Node a pass says so, and burns no try', async () => {
  const root = makeSite({
    'jobs/hourly/a.sh': executable('#!/bin/sh\nrm "$RUNNER_ROOT/node"\n'),
    'jobs/hourly/b.mjs': nodeScript(),
  });
  const node = join(root, 'node');
  copyFileSync(process.execPath, node);
  const stderr = 'runner: Node was replaced; the next pass goes on\n';
  expect(await call(root, ['hourly'], node).ended).toEqual({ status: 0, stdout: '', stderr });
  expect(readJobs(root)).toMatchObject([{ state: 'finished' }, { state: 'queued', attempts: 0 }]);
});

test.for(['cli.cjs', /^pass-/, /^probe-/])(
  'a call that finds no %s in its package says that in a sentence',
  async (missing) => {
    const root = makeSite({ 'jobs/hourly/a.sh': shellScript() });
    const dist = join(packageOf(root), 'dist');
    const name = readdirSync(dist).find((each) => each.match(missing) !== null) as string;
    unlinkSync(join(dist, name));
    const { status, stderr } = await call(root, ['hourly']).ended;
    expect(stderr).toMatch(
      /^runner: the package is not complete \(.*\): it is being installed, or was removed\. .*again\.\n$/,
    );
    expect(stderr).toContain(name);
    expect(status).toBe(1);
  },
);

interface Job {
  readonly name: string;
  readonly state: string;
}

function readJobs(root: string): Job[] {
  return queryLog<Job>(root, 'select name, state, attempts, reason from jobs order by id');
}
