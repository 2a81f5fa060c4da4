import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';

export interface Deferral {
  readonly workerId: number;
  readonly at: number;
  /** Why they were not started: "the load average is 7.2 (maxLoad 4)". */
  readonly reason: string;
}

/** Leaves jobs open for the next pass of any tier, and says why. */
export async function deferJobs(
  db: Database,
  ids: readonly number[],
  { workerId, at, reason }: Deferral,
): Promise<void> {
  if (ids.length === 0) return;
  await db.transaction().execute(async (transaction) => {
    await transaction.updateTable('jobs').set({ reason }).where('id', 'in', ids).execute();
    await recordActivity(
      transaction,
      ids.map((jobId) => ({
        at,
        event: 'job-deferred' as const,
        workerId,
        jobId,
        detail: reason,
      })),
    );
  });
}
