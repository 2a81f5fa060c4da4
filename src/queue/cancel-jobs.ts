import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';

export interface Cancellation {
  readonly workerId: number;
  readonly at: number;
  readonly reason: string;
}

/** Cancels jobs that nobody will start any more: their pass has ended, or was told to stop. */
export async function cancelQueuedJobs(
  db: Database,
  tier: string,
  cancellation: Cancellation,
): Promise<number> {
  const queued = await db
    .selectFrom('jobs')
    .select('id')
    .where('tier', '=', tier)
    .where('state', '=', 'queued')
    .where('finished_at', 'is', null)
    .execute();
  return cancelJobs(
    db,
    queued.map(({ id }) => id),
    cancellation,
  );
}

/** Cancels those of the jobs that are still queued, and says how many these were. */
export async function cancelJobs(
  db: Database,
  ids: readonly number[],
  { workerId, at, reason }: Cancellation,
): Promise<number> {
  if (ids.length === 0) return 0;
  return db.transaction().execute(async (transaction) => {
    const cancelled = await transaction
      .updateTable('jobs')
      .set({ state: 'cancelled', finished_at: at, reason })
      .where('id', 'in', ids)
      .where('state', '=', 'queued')
      .returning('id')
      .execute();
    for (const { id } of cancelled) {
      const event = 'job-cancelled';
      await recordActivity(transaction, { at, event, workerId, jobId: id, detail: reason });
    }
    return cancelled.length;
  });
}
