import { existsSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import type { Ended } from '../support/command.ts';
import { findViolations, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { nodeHandler, programHandler } from '../support/faults/queue.ts';
import { sample, someAtATime } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { executable, type FileContent } from '../support/root.ts';
import { callOwn, install, isKept, makeSite, other, packageOf, remove, replace } from '../support/site.ts';

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
    await callOwn(root, args);
    durationsMs.set(String(args), performance.now() - before);
  }
  const told = await someAtATime(sample(rounds), async (round) => {
    const problems = await playRound(round, durationsMs.get(String(round.args)) ?? 0);
    return problems.map((problem) => `${round.args} ${round.way} at ${round.tenth}/10: ${problem}`);
  });
  expect(told.flat()).toEqual([]);
}, 600_000);

async function playRound({ args, upgrade, tenth }: Round, durationMs: number): Promise<string[]> {
  const root = makeSite(scripts);
  await addJobs(root);
  const first = callOwn(root, args);
  await sleep((durationMs * tenth) / 10);
  upgrade(root);
  const ended = await first;
  rmSync(packageOf(root), { recursive: true, force: true });
  install(root, other);
  const problems = [...checkEnd(root, ended), ...checkRecords(root)];
  for (const next of [['hourly'], ['work', '--for', '20s', '--wait', '2s']]) {
    const { status, stderr } = await callOwn(root, next);
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
  if (!existsSync(stateFolderOf(root).database)) return [];
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
