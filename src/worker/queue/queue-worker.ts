import { insertRunning, insertSkipped } from '../../lock/tier-slot.ts';
import type { Database } from '../../store/open-store.ts';
import { describeSelf } from '../describe-worker.ts';
import type { LoggedCall } from '../pass.ts';

export type StartedWorker = { readonly workerId: number } | { readonly refusal: string };

/** Adds a worker of the queue, unless there are as many as there may be. */
export async function startQueueWorker(call: LoggedCall): Promise<StartedWorker> {
  const { max } = call.runner.settings.workers;
  const request = describeSelf(call, 'queue');
  return await call.store.db.transaction().execute(async (transaction) => {
    const living = await countQueueWorkers(transaction);
    if (living < max) return { workerId: await insertRunning(transaction, request) };
    const refusal = `${living} workers of the queue are at work already (workers.max is ${max})`;
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
