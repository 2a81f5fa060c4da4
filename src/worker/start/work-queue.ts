import { openHandlers } from '../../discovery/handlers.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { insertRunning, insertSkipped } from '../../lock/registry.ts';
import { chooseJob } from '../../queue/claim/choose.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { Database } from '../../store/store.ts';
import { describeSelf, finishWorker, type StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, tellStoreFailure } from '../invocation/with-store.ts';
import { createLanes, type Lane, runLane } from '../loop/executors.ts';
import type { WorkRequest } from '../loop/queue-limits.ts';
import { createSelector } from '../loop/selection.ts';
import { pruneLog } from '../prune/prune-log.ts';

/** The name under which the queue stands beside the tiers. */
const QUEUE = 'queue';

/** What a worker has done. */
interface WorkedOff {
  /** How its runs ended, the first thousand of them; null: there are enough workers already. */
  readonly ends: readonly RunEnd[] | null;
  /** Whether it lost the log on the way. Default false. */
  readonly isBroken?: boolean;
}

/** Works jobs of the queue off, until none is due or a limit is reached. */
export async function workQueue(call: StoreInvocation, request: WorkRequest): Promise<WorkedOff> {
  const started = await startQueueWorker(call);
  if ('refusal' in started) {
    call.events.emit('pass-skipped', { tier: QUEUE, reason: started.refusal });
    return { ends: null };
  }
  const { workerId } = started;
  call.events.emit('pass-started', { tier: QUEUE, scripts: [], hasScripts: true });
  const ends: RunEnd[] = [];
  const isBroken = await work(call, request, workerId, (end) => keepEnd(ends, end));
  await ifLogAllows(call, async () => {
    await pruneLog(call.runner, call.store, workerId);
    await finishWorker(call, call.store.db, workerId);
  });
  call.events.emit('pass-finished', { tier: QUEUE });
  return { ends, isBroken };
}

/** A worker that lives for days must not remember each of its runs. */
const MOST_ENDS = 1_000;

function keepEnd(ends: RunEnd[], end: RunEnd): void {
  if (ends.length < MOST_ENDS) ends.push(end);
}

async function work(
  call: StoreInvocation,
  request: WorkRequest,
  workerId: number,
  keep: (end: RunEnd) => void,
): Promise<boolean> {
  const { lanes, commit, close } = await createLanes(call, request, workerId, keep);
  try {
    const ended = await Promise.allSettled(lanes.map((lane) => runUntilLost(call, lane)));
    await ifLogAllows(call, () => commit.sync());
    // A defect; but what the other lanes had in hand was finished first.
    for (const each of ended) if (each.status === 'rejected') throw each.reason;
    return ended.some((each) => each.status === 'fulfilled' && each.value);
  } finally {
    close();
  }
}

/** A lane that loses the log leaves its child alone: that writes down what it has done, for whoever comes next. True: it did. */
async function runUntilLost(call: StoreInvocation, lane: Lane): Promise<boolean> {
  try {
    await runLane(lane);
    await lane.runner.close();
    return false;
  } catch (error) {
    lane.runner.abandon();
    call.stop.startNothing(`the worker was aborted: ${String(error)}`);
    if (!isStoreFailure(error)) throw error;
    tellStoreFailure(call, error);
    return true;
  }
}

/** Works off what is due and has a handler here; without a worker's row where there is no such job. */
export async function workOnceIfAny(
  call: StoreInvocation,
  forMs: number,
): Promise<readonly RunEnd[]> {
  const request = {
    patterns: [],
    concurrency: 1,
    isAdaptive: false,
    forMs,
    waitMs: 0,
    maxJobs: null,
    maxMemoryBytes: null,
    maxLoad: null,
    failsUnknown: false,
    watchedFiles: [],
  };
  const { runner, store, events } = call;
  const { db } = store;
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('trouble', handlers.problem);
  const { groupLimit } = runner.settings.queue;
  const selector = createSelector({ db, handlers, request, groupLimit, version: () => 0 });
  const at = runner.now();
  if ((await chooseJob(db, await selector.select(at), at)) === null) return [];
  return (await workQueue(call, request)).ends ?? [];
}

type StartedWorker = { readonly workerId: number } | { readonly refusal: string };

/** Adds a worker of the queue, unless there are as many as there may be. */
export async function startQueueWorker(call: StoreInvocation): Promise<StartedWorker> {
  const { max } = call.runner.settings.workers;
  const request = describeSelf(call, 'queue');
  return await call.store.db.transaction().execute(async (transaction) => {
    const living = await countQueueWorkers(transaction);
    if (living < max) return { workerId: await insertRunning(transaction, request) };
    const refusal = `${living} queue workers are already running (workers.max is ${max})`;
    await insertSkipped(transaction, request, refusal);
    return { refusal };
  });
}

/** Dead ones were found out before. */
async function countQueueWorkers(db: Database): Promise<number> {
  const { workers } = await db
    .selectFrom('workers')
    .select(({ fn }) => fn.countAll<number>().as('workers'))
    .where('state', '=', 'running')
    .where('kind', '=', 'queue')
    .executeTakeFirstOrThrow();
  return workers;
}
