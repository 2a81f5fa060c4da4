import { cpSync, existsSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import type { LoggedJob, LoggedRun } from '../support/engines/engine.ts';
import { engine } from '../support/engines/engines.ts';
import {
  distinctPoints,
  kindOf,
  placeBetween,
  runWithFault,
  type Trace,
  traceFaultPoints,
} from '../support/faults/faults.ts';
import { findViolations, forget, HOLD, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { listOpenJobs, listRunProcesses, readLog } from '../support/faults/log-content.ts';
import { Places, type Played, type Round } from '../support/faults/rounds.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../support/root.ts';
import { seeTiers } from '../support/site.ts';
import { until } from '../support/until.ts';

/** One command that is killed at each of its points, each time from the same beginning. */
interface Scenario {
  readonly name: string;
  readonly args: readonly string[];
  readonly files: Readonly<Record<string, FileContent>>;
  /** What has happened in the root before. */
  readonly prepare?: (root: string) => Promise<unknown>;
  /** Puts an end to what kept the log from being used, before somebody comes next. */
  readonly mend?: (root: string) => void;
  /** Whether it only reads: then the log says the same before and after, wherever it is killed. */
  readonly changesNothing?: boolean;
  /** Kinds of points without which the scenario would not be what its name says. */
  readonly reaches: readonly string[];
  /** The kind of point that ends what is special about it; what follows is like in the first one. */
  readonly until?: string;
  /** Who comes next, after everything that the dead runner left running has ended. */
  readonly next: readonly (readonly string[])[];
}

interface RunnerRound extends Round {
  /** Whether what the runner leaves running goes on until a later pass has met it. */
  readonly outlives: boolean;
}

const YEAR_MS = 365 * 86_400_000;

const scriptsOf = (tier: string): Record<string, FileContent> => ({
  [`jobs/${tier}/a-quick.sh`]: shellScript({ tags: ['@on-crash retry', '@retry-delay 1ms'] }),
  [`jobs/${tier}/b-fails.sh`]: shellScript({ tags: ['@retries 1', '@retry-delay 1ms'], exit: '3' }),
  [`jobs/${tier}/c-node.mjs`]: nodeScript({ lastsMs: 200 }),
});
const hourly = scriptsOf('hourly');
const daily = { 'jobs/daily/other.sh': shellScript() };
const bigOutput = executable('#!/bin/sh\nhead -c 200000 /dev/zero | tr "\\0" x\n');

/** A pass that died as its third script, the one in Node, had just begun, and ended without it. */
const diedDuringNode = (root: string) => dieAt(root, 'after spawn#3');
/** … as the second one had begun, which is to be retried; the third one was still to come. */
const diedBeforeRest = (root: string) => dieAt(root, 'after spawn#2');

const scenarios: readonly Scenario[] = [
  {
    name: 'the first pass ever, making the log',
    args: ['hourly'],
    files: { ...hourly, ...daily },
    reaches: ['sql create table runs id', 'sql commit', 'spawn', 'sql insert runs', 'sql close'],
    next: [['daily'], ['hourly']],
  },
  {
    name: 'a pass over an empty tier, which Node’s own SQLite records',
    args: ['hourly'],
    files: { 'jobs/hourly/.keep': '', ...daily },
    prepare: (root) => runWithFault(root, ['daily']),
    reaches: ['sql insert workers', 'sql update workers set state', 'sql commit'],
    next: [['hourly'], ['daily']],
  },
  {
    name: 'a rescue by the tier itself, of a run that came to its end alone',
    args: ['hourly'],
    files: { ...hourly, ...daily },
    prepare: diedDuringNode,
    reaches: ['sql update workers set state', 'sql insert runs'],
    until: 'spawn',
    next: [['daily'], ['hourly']],
  },
  {
    name: 'a rescue by another tier, which works off what was left',
    args: ['daily'],
    files: { ...hourly, ...daily },
    prepare: diedBeforeRest,
    reaches: ['sql update workers set state', 'sql insert runs', 'spawn'],
    next: [['daily'], ['hourly']],
  },
  {
    name: 'a worker of the queue that finds what has died',
    args: ['work'],
    files: { ...hourly, ...daily },
    prepare: diedDuringNode,
    reaches: ['sql update workers set state', 'sql insert runs'],
    next: [['work'], ['hourly']],
  },
  {
    name: 'a report of what has died, which leaves it to the next pass',
    args: ['report'],
    files: { ...hourly, ...daily },
    prepare: diedDuringNode,
    changesNothing: true,
    reaches: ['sql pragma journal_mode', 'sql close'],
    next: [['daily'], ['hourly']],
  },
  {
    name: 'housekeeping, of a log whose rows are old',
    args: ['hourly'],
    files: { 'jobs/hourly/big.sh': bigOutput, ...daily },
    prepare: async (root) => {
      for (const args of [['hourly'], ['hourly'], ['pause'], ['resume']]) {
        await runWithFault(root, args, { clockMs: -2 * YEAR_MS });
      }
    },
    reaches: ['sql delete runs', 'sql delete events', 'sql delete workers', 'fs.rm .runner/output/<n>.<n>.log.gz'],
    next: [['daily'], ['hourly']],
  },
  {
    name: 'a pass without its log',
    args: ['hourly'],
    files: { ...hourly, ...daily },
    prepare: async (root) => {
      await runWithFault(root, ['daily']);
      engine.setNewer(root, true);
    },
    mend: (root) => engine.setNewer(root, false),
    reaches: ['spawn'],
    next: [['daily'], ['hourly']],
  },
  {
    name: 'replaying what was recorded without the log',
    args: ['daily'],
    files: { ...hourly, ...daily },
    prepare: async (root) => {
      await runWithFault(root, ['daily']);
      engine.setNewer(root, true);
      await runWithFault(root, ['hourly']);
      await diedDuringNode(root);
      engine.setNewer(root, false);
    },
    reaches: ['sql insert runs', 'fs.rm .runner/spool/<token>.jsonl'],
    until: 'spawn',
    next: [['daily'], ['hourly']],
  },
  {
    name: 'quarantining a broken log',
    args: ['hourly'],
    files: { ...hourly, ...daily },
    prepare: async (root) => {
      await runWithFault(root, ['daily']);
      writeFileSync(stateFolderOf(root).database, 'This is no database any more. '.repeat(1000));
      forget(root);
    },
    reaches: ['fs.rename .runner/activity.db', 'fs.rename .runner/activity.new', 'spawn'],
    until: 'spawn',
    next: [['daily'], ['hourly']],
  },
  {
    name: 'a pass whose next process waits while a script runs',
    args: ['hourly'],
    files: Object.fromEntries(['x', 'y', 'z'].map((name) => [`jobs/hourly/${name}-c-node.mjs`, nodeScript()])),
    // It has to be known how long they take.
    prepare: (root) => runWithFault(root, ['hourly']),
    reaches: availableParallelism() === 1 ? [] : ['fs.open .runner/output/<n>.<n>.held'],
    next: [['hourly'], ['hourly']],
  },
  {
    name: 'the tiers that are due',
    args: ['due'],
    files: { ...scriptsOf('yearly'), 'jobs/monthly/other.sh': shellScript(), ...daily },
    // The log is there: how it is made, the first one shows.
    prepare: async (root) => {
      await seeTiers(root);
      await runWithFault(root, ['daily']);
    },
    reaches: ['sql insert jobs', 'spawn', 'sql insert runs'],
    next: [['due'], ['due']],
  },
];

const places = new Places();

test.each(places.order(scenarios))(
  'killed at any point: $name',
  async (scenario) => {
    const template = makeTemporaryRoot(scenario.files);
    await scenario.prepare?.(template);
    const trace = await tracePoints(template, scenario);
    const kinds = trace.points.map(kindOf);
    expect(scenario.reaches.filter((kind) => !kinds.includes(kind))).toEqual([]);

    const play = (round: RunnerRound) => survive(template, scenario, round);
    const { wanted, missed, wrong } = await places.play(planRounds(trace), play, AT_ONCE);

    expect(wrong).toEqual([]);
    // Ends that come together are one commit: a point of a high number may not come.
    expect(missed).toBeLessThanOrEqual(1 + wanted / 10);
  },
  600_000,
);

/** It takes longest of all files: with fewer, the others would wait for it in the end. */
const AT_ONCE = 5;

async function tracePoints(template: string, { args, until: last }: Scenario): Promise<Trace> {
  const trace = await traceFaultPoints(copyRoot(template), args);
  // It comes by the clock, and changes nothing that is seen.
  const points = trace.points.filter((point) => kindOf(point) !== 'fs.fdatasync');
  const end = last === undefined ? points.length : points.map(kindOf).indexOf(last) + 1;
  return { ...trace, points: points.slice(0, end) };
}

/**
 * Before every point, which is right after the one before it. From both sides where the runner then waits
 * for somebody else, and of the last one.
 */
function planRounds(trace: Trace): RunnerRound[] {
  return distinctPoints(trace.points).flatMap((point, index, points) => {
    const isWaiting = kindOf(point) === 'spawn';
    const sides = isWaiting || index === points.length - 1 ? ['before', 'after'] : ['before'];
    return sides.map((side, turn) => ({
      at: `${side} ${point}`,
      place: placeBetween(trace, points[index - 1], side, point),
      outlives: (index + turn) % 2 === 0,
    }));
  });
}

async function survive(template: string, scenario: Scenario, round: RunnerRound): Promise<Played> {
  const root = copyRoot(template);
  const hold = join(root, HOLD);
  if (round.outlives) writeFileSync(hold, '');
  const before = readLog(root);
  const killed = await runWithFault(root, scenario.args, { at: round.at });
  const wrong: string[] = [];
  if (scenario.changesNothing && !isDeepStrictEqual(readLog(root), before)) {
    wrong.push('the log says something else than before');
  }
  if (isRunning(root)) wrong.push(...(await callNext(root, scenario.args)));
  rmSync(hold, { force: true });
  await until('no script runs', () => !isRunning(root));

  scenario.mend?.(root);
  const ends = readResults(root);
  const acknowledged = readOpenJobs(root);
  for (const args of scenario.next) {
    ageSpeechless(root);
    wrong.push(...(await callNext(root, args)));
    wrong.push(...checkEnds(root, ends), ...checkDone(root, acknowledged));
  }
  wrong.push(...findViolations(root), ...checkPromises(root));
  if (wrong.length === 0) rmSync(root, { recursive: true });
  const { at, outlives } = round;
  return { isHit: killed.status === null, wrong: wrong.map((each) => `${at}${outlives ? ', outlived' : ''}: ${each}`) };
}

/** Of a spool file without a word nobody knows whose it is: it goes when it is a minute old. */
function ageSpeechless(root: string): void {
  const { spool } = stateFolderOf(root);
  const names = existsSync(spool) ? readdirSync(spool) : [];
  const before = new Date(Date.now() - 2 * 60_000);
  for (const path of names.map((name) => join(spool, name))) {
    if (!readFileSync(path, 'utf8').includes('\n')) utimesSync(path, before, before);
  }
}

/** What a runner that nothing happens to says besides that scripts have failed. */
async function callNext(root: string, args: readonly string[]): Promise<string[]> {
  const { status, stderr } = await runWithFault(root, args);
  return status === 0 || status === 1 ? [] : [`${args} ended with ${status}: ${stderr}`];
}

/** Exit codes of lost runs, by what their scripts know them by, that their scripts themselves have written down. */
function readResults(root: string): ReadonlyMap<string, number> {
  const { results } = stateFolderOf(root);
  const names = existsSync(results) ? readdirSync(results) : [];
  return new Map(
    names.map((name) => {
      const { exitCode } = JSON.parse(readFileSync(join(results, name), 'utf8'));
      return [basename(name, '.json'), exitCode];
    }),
  );
}

/** Who came to an end alone has that end, and did not crash. */
function checkEnds(root: string, ends: ReadonlyMap<string, number>): string[] {
  const runs = readLog(root)?.runs ?? [];
  return [...ends].flatMap(([id, exitCode]) => {
    const run = runs.find(({ worker_id, claim_number, spool_id }) =>
      [`${worker_id}.${claim_number}`, spool_id].includes(id),
    );
    const isTrue = run?.exit_code === exitCode && run.outcome !== 'crashed';
    return isTrue ? [] : [`run ${id} ended with ${exitCode}, and is told as ${run?.outcome}`];
  });
}

function readOpenJobs(root: string): readonly number[] {
  const log = readLog(root);
  return log === null ? [] : listOpenJobs(log).map(({ id }) => id);
}

/** The next pass of any tier, and whoever else finds it, does not forget a job. */
function checkDone(root: string, ids: readonly number[]): string[] {
  const jobs = readLog(root)?.jobs ?? [];
  return ids.flatMap((id) => {
    const job = jobs.find((each) => each.id === id);
    return job === undefined ? [`job ${id} is lost`] : [];
  });
}

/** With one death of the runner, no more. */
function checkPromises(root: string): string[] {
  const log = readLog(root);
  return (log?.jobs ?? []).flatMap((job) => {
    const runs = log?.runs.filter(({ job_id }) => job_id === job.id) ?? [];
    return listRounds(runs).flatMap((round, index, { length }) => checkRound(job, round, index === length - 1));
  });
}

/** A script's row is begun anew by each pass: with a first try. */
function listRounds(runs: readonly LoggedRun[]): readonly (readonly LoggedRun[])[] {
  const starts = runs.flatMap(({ attempt }, index) => (attempt === 1 || index === 0 ? index : []));
  return starts.map((start, index) => runs.slice(start, starts[index + 1]));
}

function checkRound(job: LoggedJob, runs: readonly LoggedRun[], isLast: boolean): string[] {
  const { name } = job;
  const state = isLast ? job.state : (runs.at(-1)?.left_job ?? 'finished');
  const crashed = runs.filter(({ outcome }) => outcome === 'crashed').length;
  // Without the log there is nothing to try anything again by.
  if (runs.some(({ spool_id }) => spool_id !== null)) return [];
  if (name.endsWith('a-quick') && state === 'finished') return [];
  if (name.endsWith('b-fails') && state === 'failed' && runs.length === 2) return [];
  if (name.endsWith('c-node') && state === (crashed === 0 ? 'finished' : 'failed')) return [];
  if (/other|big/.test(name) && ['finished', 'failed'].includes(state)) return [];
  return [`${name} is ${state} after ${runs.length} runs, ${crashed} of them crashed`];
}

async function dieAt(root: string, at: string): Promise<void> {
  const { status } = await runWithFault(root, ['hourly'], { at });
  expect(status).toBeNull();
  await until('no script runs', () => !isRunning(root));
}

const isRunning = (root: string): boolean => listRunProcesses(root).length > 0;

function copyRoot(template: string): string {
  const root = makeTemporaryRoot();
  cpSync(template, root, { recursive: true, preserveTimestamps: true });
  return root;
}
