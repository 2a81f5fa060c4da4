import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';

/** Cancels jobs that nobody will start any more: their pass has ended, or was told to stop. */
export async function cancelQueuedJobs(
  db: Database,
  tier: string,
  {
    workerId,
    at,
    reason,
  }: { readonly workerId: number; readonly at: number; readonly reason: string },
): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    const cancelled = await transaction
      .updateTable('jobs')
      .set({ state: 'cancelled', finished_at: at, reason })
      .where('tier', '=', tier)
      .where('state', '=', 'queued')
      .where('finished_at', 'is', null)
      .returning('id')
      .execute();
    const activities = cancelled.map(({ id }) => ({
      at,
      event: 'job-cancelled' as const,
      workerId,
      jobId: id,
      detail: reason,
    }));
    if (activities.length > 0) await recordActivity(transaction, ...activities);
    return cancelled.length;
  });
}
