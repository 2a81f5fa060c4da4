import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';

export interface Cancellation {
  /** Null: no worker of theirs, as their tier is gone. */
  readonly workerId: number | null;
  readonly at: number;
  readonly reason: string;
}

/** Cancels those of the jobs that wait to be run, and says how many these were. */
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
      .where('state', 'in', ['queued', 'retrying'])
      .returning('id')
      .execute();
    for (const { id } of cancelled) {
      const event = 'job-cancelled';
      await recordActivity(transaction, { at, event, workerId, jobId: id, detail: reason });
    }
    return cancelled.length;
  });
}
