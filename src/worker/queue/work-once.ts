import { openHandlers } from '../../discovery/handlers.ts';
import type { RunEnd } from '../../execution/run-end.ts';
import { chooseJob } from '../../queue/choose-job.ts';
import type { LoggedCall } from '../pass.ts';
import { createSelector } from './queue-selection.ts';
import { workQueue } from './work-queue.ts';

/** Works off what is due and has a handler here; without a worker's row where there is no such job. */
export async function workOnceIfAny(call: LoggedCall, forMs: number): Promise<readonly RunEnd[]> {
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
