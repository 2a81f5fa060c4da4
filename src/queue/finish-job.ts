import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { FinishedRun } from '../store/schema.ts';
import type { ClaimedJob } from './claim-job.ts';

/** By what a claim is known to whoever ends it. */
export type Claim = Pick<ClaimedJob, 'id' | 'token' | 'runId' | 'startedAt'>;

/**
 * Records how a run ended and ends its job, in one transaction.
 *
 * @param toldAt when that became known, if later than it happened; epoch milliseconds
 * @returns false when the claim was lost meanwhile: then nothing is changed, whoever took the job
 *   over has the say
 */
export function finishJob(
  db: Database,
  job: Claim,
  workerId: number,
  run: FinishedRun,
  toldAt?: number,
): Promise<boolean> {
  const at = run.finished_at ?? job.startedAt;
  const state = run.outcome === 'succeeded' ? 'finished' : 'failed';
  return db.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .updateTable('jobs')
      .set({ state, finished_at: at, claim_token: null, reason: run.reason })
      .where('id', '=', job.id)
      .where('claim_token', '=', job.token)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return false;
    await transaction.updateTable('runs').set(run).where('id', '=', job.runId).execute();
    await recordActivity(transaction, {
      at: toldAt ?? at,
      event: state === 'finished' ? 'job-finished' : 'job-failed',
      workerId,
      jobId: job.id,
      runId: job.runId,
      detail: run.reason,
    });
    return true;
  });
}
