import { openHandlers } from '../../discovery/handlers.ts';
import type { KeptEnd, RunEnd } from '../../execution/result/result.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import { isFailure } from '../../store/words.ts';
import { type CallSummary, describeSelf, finishWorker, type StoreInvocation } from '../invocation/invocation.ts';
import { ifLogAllows, reportStoreFailure } from '../invocation/with-store.ts';
import { equipExecutors } from '../loop/executors.ts';
import { runExecutors } from '../loop/loop.ts';
import { QueueExecutor } from '../loop/queue-executor.ts';
import type { WorkRequest } from '../loop/queue-limits.ts';
import { createSelector } from '../loop/queue-recorder.ts';
import { pruneLog } from './prune-log.ts';

/** The name of the queue beside the names of tiers. */
const QUEUE = 'queue';

/**
 * Processes queued jobs until none is due or a limit is reached.
 *
 * @returns the ends of its first thousand runs, and whether one has failed; without ends if there are enough workers
 */
export async function workQueue(call: StoreInvocation, request: WorkRequest): Promise<CallSummary> {
  const started = await startQueueWorker(call);
  if ('refusal' in started) {
    call.events.emit('pass-skipped', { tier: QUEUE, reason: started.refusal });
    return { ends: null };
  }
  const { workerId } = started;
  call.heartbeat?.begin(workerId);
  call.events.emit('pass-started', { tier: QUEUE, scripts: [], hasScripts: true });
  const ends: KeptEnd[] = [];
  const isBroken = await work(call, request, started, (end) => keepEnd(ends, end));
  await ifLogAllows(call, async () => {
    await pruneLog(call.runner, call.store, workerId);
    await finishWorker(call, call.store, workerId);
  });
  call.events.emit('pass-finished', { tier: QUEUE });
  return { ends, isBroken };
}

/** A worker that lives for days must not remember each of its runs. */
const MOST_ENDS = 1_000;

function keepEnd(ends: KeptEnd[], { outcome }: KeptEnd): void {
  if (ends.length < MOST_ENDS) ends.push({ outcome });
  else if (isFailure(outcome)) ends[0] = { outcome };
}

async function work(
  call: StoreInvocation,
  request: WorkRequest,
  started: StartedWorker,
  keep: (end: RunEnd) => void,
): Promise<boolean> {
  const { executors, close } = await equipExecutors(call, request, started, keep);
  try {
    const working = executors.map((equipment) => new QueueExecutor(equipment));
    const report = (error: unknown) => isStoreFailure(error) && reportStoreFailure(call, error);
    const errors = await runExecutors(working, { ...call, name: 'worker', onBroken: report });
    await ifLogAllows(call, () => call.store.sync());
    // It is a defect, but the other executors have finished their jobs first.
    for (const error of errors) if (!isStoreFailure(error)) throw error;
    return errors.length > 0;
  } finally {
    close();
  }
}

/** Processes due jobs that have a handler here; it adds no worker's row if there is no such job. */
export async function workOnceIfAny(call: StoreInvocation, forMs: number): Promise<readonly KeptEnd[]> {
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
  const handlers = await openHandlers(runner.root, runner.settings);
  if (handlers.problem !== null) events.emit('problem', handlers.problem);
  const { groupLimit } = runner.settings.queue;
  const selector = createSelector({ handlers, request, groupLimit, version: () => 0 });
  const at = runner.now();
  if ((await store.claims.next(await selector.select(at, store), at)) === null) return [];
  return (await workQueue(call, request)).ends ?? [];
}

interface StartedWorker {
  readonly workerId: number;
  readonly worker: NewWorker;
}

/** Adds a worker of the queue, unless the maximum is reached. Dead workers were found before. */
export async function startQueueWorker(call: StoreInvocation): Promise<StartedWorker | { readonly refusal: string }> {
  const { max } = call.runner.settings.workers;
  const worker = describeSelf(call, 'queue');
  return await call.store.transaction(async ({ workers }) => {
    const started = await workers.startOneOf(worker, max);
    if ('id' in started) return { workerId: started.id, worker };
    const describe = (verb: 'are' | 'were'): string =>
      `${started.living} queue workers ${verb} already running (workers.max is ${max})`;
    await workers.skip(worker, 'held', describe('were'));
    return { refusal: describe('are') };
  });
}
