import { sql } from 'kysely';
import { recordActivity } from '../../store/events.ts';
import type { ActivityEvent, FinishedRun, JobState } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import type { Claim } from '../claim/script-claim.ts';
import { judgeTry, type RetryPolicy, type Verdict } from './retry-policy.ts';

/** A run that has ended, and what its job says of further tries. */
export interface EndedRun {
  readonly claim: Claim;
  readonly policy: RetryPolicy;
  readonly run: FinishedRun;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
}

/** Who tells of it, and when it became known, if later than it happened; epoch milliseconds. */
interface Teller {
  readonly workerId: number | null;
  readonly toldAt?: number;
}

const events = {
  finished: 'job-finished',
  failed: 'job-failed',
  cancelled: 'job-cancelled',
  retrying: 'job-retrying',
} as const satisfies Partial<Record<JobState, ActivityEvent>>;

/**
 * Records how a run ended, and what becomes of its job, in one transaction.
 *
 * @returns null when the claim was lost meanwhile: then nothing is changed, whoever took the job
 *   over has the say
 */
export function finishJob(
  db: Database,
  { claim, policy, run, isRetryable }: EndedRun,
  { workerId, toldAt }: Teller,
): Promise<Verdict | null> {
  const endedAt = run.finished_at ?? claim.startedAt;
  const at = toldAt ?? endedAt;
  const { outcome } = run;
  const verdict = judgeTry(policy, { outcome, attempt: claim.attempt, isRetryable, at });
  return db.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .updateTable('jobs')
      .set({
        ...toJobColumns(verdict, { endedAt, attempt: claim.attempt }),
        claim_token: null,
        reason: run.reason,
      })
      .where('id', '=', claim.id)
      .where('claim_token', '=', claim.token)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return null;
    await transaction.updateTable('runs').set(run).where('id', '=', claim.runId).execute();
    await recordActivity(transaction, {
      at,
      event: events[verdict.state],
      workerId,
      jobId: claim.id,
      runId: claim.runId,
      detail: run.reason,
    });
    return verdict;
  });
}

/** What becomes of a job whose try of this number has ended, as its row holds it. */
export function toJobColumns(
  verdict: Verdict,
  { endedAt, attempt }: { readonly endedAt: number; readonly attempt: number },
) {
  return verdict.state === 'retrying'
    ? {
        state: verdict.state,
        run_at: verdict.runAt,
        claimed_by: null,
        // `@on-crash retry` grants one more than was asked for.
        max_attempts: sql<number>`max(max_attempts, ${attempt + 1})`,
      }
    : { state: verdict.state, finished_at: endedAt };
}
