import type { RunEnd } from '../../execution/run-end.ts';
import { isStoreFailure } from '../../store/store-failure.ts';
import { finishWorker } from '../finish-worker.ts';
import type { LoggedCall } from '../pass.ts';
import { pruneLog } from '../prune-log.ts';
import { ifLogAllows, tellStoreFailure } from '../store-trouble.ts';
import { createLanes } from './create-lanes.ts';
import { startQueueWorker } from './queue-worker.ts';
import { type Lane, runLane } from './run-lane.ts';
import type { WorkRequest } from './work-request.ts';

/** The name under which the queue stands beside the tiers. */
const QUEUE = 'queue';

/** What a worker has done. */
export interface WorkedOff {
  /** How its runs ended, the first thousand of them; null: there are enough workers already. */
  readonly ends: readonly RunEnd[] | null;
  /** Whether it lost the log on the way. Default false. */
  readonly isBroken?: boolean;
}

/** Works jobs of the queue off, until none is due or a limit is reached. */
export async function workQueue(call: LoggedCall, request: WorkRequest): Promise<WorkedOff> {
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
  call: LoggedCall,
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
async function runUntilLost(call: LoggedCall, lane: Lane): Promise<boolean> {
  try {
    await runLane(lane);
    await lane.runner.close();
    return false;
  } catch (error) {
    lane.runner.abandon();
    call.stop.startNothing(`the worker broke off: ${String(error)}`);
    if (!isStoreFailure(error)) throw error;
    tellStoreFailure(call, error);
    return true;
  }
}
