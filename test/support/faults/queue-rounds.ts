import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { listNames } from '../../../src/system/base/values.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../root.ts';
import { until } from '../until.ts';
import { distinctPoints, kindOf, placeBetween, runWithFault, traceFaultPoints } from './faults.ts';
import { checkInvariants } from './invariants.ts';
import { type LogContent, listRunProcesses, readLog } from './log-content.ts';
import {
  addJob,
  HOLD,
  letGo,
  nodeHandler,
  programHandler,
  readSeenTries,
  startWaiting,
  UNTIL_GO,
  untilStarted,
} from './queue.ts';
import type { Round } from './rounds.ts';

/** Where a worker is killed. */
export interface QueueRound extends Round {
  /** Whether what the dead one leaves running goes on until another worker has met it. */
  readonly outlives: boolean;
}

/** What begins and ends by the clock comes more or less often: a point of that number may not come. */
const byTheClock = /fs.fdatasync|workers set kind|set lease_expires_at/;

/**
 * Before every point of a command in a copy of this root, from the first one of a kind on, which is right
 * after the one before it; also after the last one, and where it starts somebody else.
 *
 * @param until the kind that ends what is special about it
 */
export async function planQueueRounds(
  template: string,
  args: readonly string[],
  { from, until: last }: { readonly from?: string; readonly until?: string } = {},
): Promise<readonly QueueRound[]> {
  const trace = await traceFaultPoints(copyRoot(template), args);
  const { points } = trace;
  const kinds = points.map(kindOf);
  const start = from === undefined ? 0 : kinds.indexOf(from);
  const end = last === undefined ? points.length : kinds.indexOf(last, start) + 1;
  const distinct = distinctPoints(points);
  const wanted = points.slice(start, end).filter((point) => distinct.includes(point) && !byTheClock.test(point));
  return wanted.flatMap((point, index) =>
    sidesOf(point, wanted).map((side, turn) => ({
      at: `${side} ${point}`,
      place: placeBetween(trace, wanted[index - 1], side, point),
      outlives: kindOf(point) === 'spawn' ? turn === 1 : index % 4 === 0,
    })),
  );
}

function sidesOf(point: string, wanted: readonly string[]): readonly string[] {
  // Right after these somebody else may go on, before the next one.
  const isTold = ['spawn', 'sql commit'].includes(kindOf(point));
  return isTold || point === wanted.at(-1) ? ['before', 'after'] : ['before'];
}

export function copyRoot(template: string): string {
  const root = makeTemporaryRoot();
  cpSync(template, root, { recursive: true, preserveTimestamps: true });
  return root;
}

/** Handlers that outlive their worker go on until this is taken away. */
export function holdHandlers(root: string): () => void {
  const path = join(root, HOLD);
  writeFileSync(path, '');
  return () => rmSync(path, { force: true });
}

export async function untilNothingRuns(root: string): Promise<void> {
  await until('no handler runs', () => listRunProcesses(root).length === 0, 60_000);
}

/** Works off what is due, by so many workers at the same time, until nothing is. What went wrong. */
export async function drain(root: string, workers = 1): Promise<string[]> {
  const wrong: string[] = [];
  await until(
    'all is worked off',
    async () => {
      wrong.push(...(await workOff(root, workers)));
      return wrong.length > 0 || !hasWork(root);
    },
    60_000,
  );
  return wrong;
}

async function workOff(root: string, workers: number): Promise<string[]> {
  const calls = Array.from({ length: workers }, () => runWithFault(root, ['work']));
  const ended = await Promise.all(calls);
  return ended.flatMap(({ status, stderr }) =>
    // 1: handlers have failed.
    status === 0 || status === 1 ? [] : [`work ended with ${status}: ${stderr}`],
  );
}

/** What was tried and failed is due soon; what is due in an hour is none of it. */
function hasWork(root: string): boolean {
  // Of two that clear up at the same time, neither knows that all is told: the next one does.
  if (listNames(stateFolderOf(root).temporary).some((name) => name.startsWith('secrets.'))) return true;
  const soon = Date.now() + 30_000;
  const jobs = readLog(root)?.jobs ?? [];
  return jobs.some(
    ({ tier, state, run_at }) =>
      tier === null && (state === 'running' || (['queued', 'retrying'].includes(state) && run_at <= soon)),
  );
}

const soon = '@retry-delay 1ms';

/** Handlers for a worker that loses its log while the first one is at work. */
export const handlersOfLoss = {
  'jobs/queue/warm.mjs': nodeHandler({ tags: [soon], does: UNTIL_GO }),
  'jobs/queue/apart.mjs': nodeHandler({ tags: [soon, '@isolate'], does: UNTIL_GO }),
  'jobs/queue/after.sh': programHandler({ tags: [soon] }),
};

export interface Loss {
  /** The handler that is at work. */
  readonly name: string;
  /** Takes the log away, or what it needs. */
  readonly lose: () => void | Promise<void>;
  readonly giveBack: () => void | Promise<void>;
  /** What the worker says of it. */
  readonly says: RegExp;
  /** Whether how the run ended may be lost, too: then it is done again. Default false. */
  readonly mayLoseEnd?: boolean;
}

/**
 * A worker whose log is lost under it says so and ends; what its handler has done then is neither lost
 * nor done twice, and what waits is done by the next one.
 */
export async function loseLog(root: string, loss: Loss): Promise<void> {
  const { name, lose, giveBack, says, mayLoseEnd = false } = loss;
  const worker = startWaiting(root);
  const id = await addJob(root, name);
  await untilStarted(root, id);
  const after = await addJob(root, 'after');
  await lose();
  letGo(root);
  const { status, stderr } = await worker.ended;
  await untilNothingRuns(root);
  expect(stderr).toMatch(says);
  expect(status).toBe(1);
  await giveBack();
  expect(readSeenTries(root)).toMatchObject([{ jobId: id, end: 'done' }]);
  expect(await drain(root, 2)).toEqual([]);
  const { jobs } = readLog(root) as LogContent;
  const tries = readSeenTries(root).filter(({ jobId }) => jobId === id).length;
  expect(mayLoseEnd ? [1, 2] : [1]).toContain(tries);
  expect(jobs.filter((job) => [id, after].includes(job.id))).toMatchObject([
    { state: 'finished', attempts: tries },
    { state: 'finished', attempts: 1 },
  ]);
  expect(readSeenTries(root)).toHaveLength(tries + 1);
  checkInvariants(root);
}
