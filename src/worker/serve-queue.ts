import type { RunEnd } from '../execution/run-end.ts';
import { hasDueJob } from '../queue/waiting-jobs.ts';
import type { LoggedCall } from './pass.ts';

/** So long a pass serves the queue at most: who wants more calls `runner work`. */
const LONGEST_MS = 10 * 60_000;

/**
 * Works off what is due in the queue, so that a site with little to do needs no line of the crontab for
 * it. Nothing of that is loaded where there is nothing to do.
 */
export async function serveQueue(call: LoggedCall): Promise<readonly RunEnd[]> {
  const { store, runner, stop, budget } = call;
  if (stop.reason !== null || !(await hasDueJob(store.db, runner.now()))) return [];
  const leftMs =
    budget === null ? LONGEST_MS : budget.startedAt + budget.budgetMs - performance.now();
  if (leftMs <= 0) return [];
  const { workOnceIfAny } = await import('./queue/work-once.ts');
  return await workOnceIfAny(call, leftMs);
}
