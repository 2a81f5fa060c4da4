import { rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import type { NewJob } from '../../src/queue/api.ts';
import type { LoggedJob } from '../support/engines/engine.ts';
import { runWithFault } from '../support/faults/faults.ts';
import { findViolations } from '../support/faults/invariants.ts';
import { type LogContent, listRunProcesses, readLog } from '../support/faults/log-content.ts';
import { nodeHandler, programHandler, readSeenTries } from '../support/faults/queue.ts';
import {
  copyRoot,
  drain,
  holdHandlers,
  planQueueRounds,
  type QueueRound,
  untilNothingRuns,
} from '../support/faults/queue-rounds.ts';
import { Places, type Played } from '../support/faults/rounds.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../support/root.ts';

/** A worker that is killed at each of its points, each time from the same beginning. */
interface Scenario {
  readonly name: string;
  readonly files: Readonly<Record<string, FileContent>>;
  readonly jobs: readonly NewJob[];
  /** What has happened in the root besides. */
  readonly prepare?: (root: string) => Promise<unknown>;
  readonly args?: readonly string[];
  readonly from?: string;
  readonly until?: string;
}

const soon = '@retry-delay 1ms';

const handlers: Readonly<Record<string, FileContent>> = {
  'jobs/queue/warm.mjs': nodeHandler({ tags: [soon] }),
  'jobs/queue/apart.mjs': nodeHandler({ tags: [soon, '@isolate'] }),
  'jobs/queue/program.sh': programHandler({ tags: [soon] }),
  'jobs/queue/later.sh': programHandler({ tags: [soon], exit: 'times < 2 ? 75 : 0' }),
  'jobs/queue/moody.mjs': nodeHandler({
    tags: [soon, '@retries 2'],
    does: 'if (times < 2) throw new Error("not yet"); if (times < 3) retry();',
  }),
};

const family: Readonly<Record<string, FileContent>> = {
  'jobs/queue/parent.mjs': nodeHandler({ tags: [soon], does: addTwoOnce() }),
  'jobs/queue/strict.mjs': nodeHandler({ tags: [soon], does: addTwoOnce() }),
  'jobs/queue/child.mjs': nodeHandler({ tags: [soon], does: 'if (data.index === 1) fail("there is no second one");' }),
};

/** Called again, a parent must be told of both. */
function addTwoOnce(): string {
  return `
    const told = children.finished.length + children.failed.length;
    if (told === 0) await addChildren(2);
    else if (told !== 2) throw new Error(\`told of \${told}\`);`;
}

const scenarios: readonly Scenario[] = [
  {
    name: 'with jobs of every kind, which also fail and ask for another try',
    files: handlers,
    jobs: [{ name: 'warm' }, { name: 'apart' }, { name: 'later' }, { name: 'moody' }],
  },
  {
    name: 'with families and a repeating job',
    files: { ...family, 'jobs/queue/again.mjs': nodeHandler({ tags: [soon] }) },
    jobs: [
      { name: 'parent' },
      { name: 'strict', onChildFailure: 'fail' },
      { name: 'again', repeat: 'FINISHED, +1 HOUR', priority: 600 },
    ],
  },
  {
    name: 'with two jobs at the same time, in children that serve one each',
    files: { ...handlers, 'runner.config.json': JSON.stringify({ queue: { childJobs: 1 } }) },
    args: ['work', '--concurrency', '2'],
    jobs: [{ name: 'warm' }, { name: 'warm' }, { name: 'apart' }],
  },
  {
    name: 'with short jobs, of which it claims several ahead',
    files: handlers,
    from: 'sql insert runs',
    jobs: Array.from({ length: 14 }, () => ({ name: 'warm' })),
  },
  {
    name: 'that takes over what one before it has left',
    files: { ...handlers, ...family },
    jobs: [{ name: 'warm' }, { name: 'program' }, { name: 'parent' }],
    prepare: (root) => dieAt(root, 'after spawn#2'),
    until: 'spawn',
  },
  {
    name: 'that keeps nothing of what has ended',
    files: {
      ...handlers,
      'jobs/queue/big.sh': executable('#!/bin/sh\n# @retry-delay 1ms\nhead -c 200000 /dev/zero | tr "\\0" x\n'),
      'runner.config.json': JSON.stringify({ queue: { archive: { big: 'remove' } } }),
    },
    jobs: [{ name: 'big' }],
  },
  {
    name: 'that is a pass of a tier',
    files: { ...handlers, 'jobs/hourly/other.sh': executable('#!/bin/sh\nexit 0\n') },
    args: ['hourly'],
    from: 'sql insert runs',
    jobs: [{ name: 'program' }],
  },
];

const places = new Places();

test.each(places.order(scenarios))(
  'a worker $name, killed at any point',
  async (scenario) => {
    const { files, jobs, prepare, args = ['work'] } = scenario;
    const template = makeTemporaryRoot(files);
    await addAll(template, jobs);
    await prepare?.(template);
    const { until, from = 'sql insert workers' } = scenario;
    const planned = await planQueueRounds(template, args, { from, ...(until && { until }) });
    const { wanted, missed, wrong } = await places.play(planned, (round) => survive(template, args, round));

    expect(wrong).toEqual([]);
    // What comes by the clock comes more or less often: some points have another number then. Of a handful,
    // that may be most.
    if (wanted > 10) expect(missed).toBeLessThan(wanted / 2);
  },
  900_000,
);

async function addAll(root: string, jobs: readonly NewJob[]): Promise<void> {
  const queue = await openQueue({ root });
  await queue.addMany(jobs);
  await queue.close();
}

async function survive(template: string, args: readonly string[], { at, outlives }: QueueRound): Promise<Played> {
  const root = copyRoot(template);
  const release = outlives ? holdHandlers(root) : () => {};
  const { status } = await runWithFault(root, args, { at });
  const wrong: string[] = [];
  if (outlives && listRunProcesses(root).length > 0) {
    const met = await runWithFault(root, ['work']);
    if (met.status !== 0 && met.status !== 1) wrong.push(`the next one: ${met.stderr}`);
  }
  release();
  await untilNothingRuns(root);
  wrong.push(...(await drain(root, outlives ? 2 : 1)));
  wrong.push(...findViolations(root), ...checkPromises(root));
  if (wrong.length === 0) rmSync(root, { recursive: true });
  return { isHit: status === null, wrong: wrong.map((each) => `${at}${outlives ? ', outlived' : ''}: ${each}`) };
}

/** What a job of this name must have come to, whatever happened to one of its workers. */
function checkPromises(root: string): string[] {
  const log = readLog(root);
  if (log === null) return ['there is no log'];
  return [...log.jobs.flatMap((job) => (job.tier === null ? checkJob(job, log) : [])), ...checkTrueEnds(root, log)];
}

function checkJob(job: LoggedJob, { runs }: LogContent): string[] {
  const own = runs.filter(({ job_id }) => job_id === job.id);
  const succeeded = own.filter(({ outcome }) => outcome === 'succeeded');
  const told = `job ${job.id} (${job.name}) is ${job.state} after ${own.map(({ outcome }) => outcome)}`;
  const result = JSON.stringify({ run: succeeded.at(-1)?.key });
  const isRight = judge(job, succeeded.length);
  const isResult = succeeded.length === 0 || job.result === result;
  return [
    ...(isRight ? [] : [told]),
    ...(isResult ? [] : [`job ${job.id} has the result ${job.result}, not ${result}`]),
  ];
}

function judge({ name, state, data, run_at }: LoggedJob, successes: number): boolean {
  const isSecondChild = name === 'child' && data === '{"index":1}';
  if (isSecondChild) return state === 'failed' && successes === 0;
  if (name === 'big') return false;
  if (name === 'parent') return state === 'finished' && successes === 2;
  if (name === 'strict') return state === 'failed' && successes === 1;
  if (name === 'again') {
    return state === 'queued' && successes === 1 && run_at > Date.now() + 1_800_000;
  }
  return state === 'finished' && successes === 1;
}

/** A handler in Node has written down how it ended, whoever was there to be told. */
function checkTrueEnds(root: string, { runs }: LogContent): string[] {
  return readSeenTries(root).flatMap(({ key, end }) => {
    const run = runs.find((each) => each.key === key);
    const isProgram = /program|later|big/.test(run?.script ?? '');
    const isTold = isProgram || end !== 'done' || run?.outcome === 'succeeded';
    return isTold ? [] : [`run ${key} (${run?.script}) was done, and is ${run?.outcome}`];
  });
}

async function dieAt(root: string, at: string): Promise<void> {
  const { status } = await runWithFault(root, ['work'], { at });
  expect(status).toBeNull();
  await untilNothingRuns(root);
}
