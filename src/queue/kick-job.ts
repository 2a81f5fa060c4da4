import { sql } from 'kysely';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { findJob } from './find-job.ts';
import { isWaiting } from './job-states.ts';
import { wrongState } from './refusals.ts';
import { asUnfinished, judgeRevival } from './revive-job.ts';

/** Queues a job that has failed, or is not due yet, at once, with all its tries. */
export async function kickJob(db: Database, id: number, at: number): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, id);
    const isDelayed = isWaiting(job.state) && job.run_at > at;
    if (job.state !== 'failed' && !isDelayed) throw wrongState(job, 'kick');
    const state = await judgeRevival(transaction, job);
    await transaction
      .updateTable('jobs')
      .set({ state, ...asKicked(at) })
      .where('id', '=', job.id)
      .execute();
    await recordActivity(transaction, { at, event: 'job-kicked', jobId: job.id });
  });
}

/** How the row of a kicked job looks, its state aside. */
export function asKicked(at: number) {
  return { ...asUnfinished, run_at: at, attempts: 0, kicks: sql<number>`kicks + 1` };
}
