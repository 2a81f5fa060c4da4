import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { endClaim } from './end-claim.ts';
import { type Ending, planRepeat } from './end-job.ts';
import { dataOf, type EndingContext, factsOf, findRunningJob } from './end-running-job.ts';
import { readDelayMs, readJobName, readPriority, readWhen } from './job-values.ts';
import type { JobRef, RetryOptions } from './queue.ts';
import { QueueError } from './queue-error.ts';

/**
 * Gives a running job back, to be taken again: a repeating one at its next time, unless that is to be
 * ignored; else at the time that is said, else after the delay.
 */
export async function retryRunningJob(
  db: Database,
  ref: JobRef,
  options: RetryOptions,
  context: EndingContext,
): Promise<void> {
  const { reason = null, ignoreRepeat = false } = options;
  const ending = readRetry(options, context.at);
  await db.transaction().execute(async (transaction) => {
    const job = await findRunningJob(transaction, ref, 'retry');
    await endClaim(transaction, job, ending, factsOf(context, reason));
    if (job.repeat !== null && !ignoreRepeat) await setNextTime(transaction, job, context);
  });
}

function readRetry(options: RetryOptions, at: number): Extract<Ending, { kind: 'retry' }> {
  const { delay, runAt, priority, name, data } = options;
  return {
    kind: 'retry',
    isTry: false,
    runAt: readWhen(runAt ?? at + readDelayMs('The delay', delay ?? '0'), at),
    ...(priority !== undefined && { priority: readPriority(priority) }),
    ...(name !== undefined && { name: readJobName(name) }),
    ...dataOf(data),
  };
}

/** It begins anew: what was tried before is no try of the next time's. */
async function setNextTime(db: Database, job: JobRow, context: EndingContext): Promise<void> {
  const planned = await planRepeat(job, context.at, context.missedCap);
  // A rule without a further time leaves it to be taken as was said otherwise.
  if (planned === null) return;
  if ('problem' in planned) throw new QueueError('wrong-state', planned.problem);
  const { runAt: run_at, scheduledFor: scheduled_for } = planned;
  await db
    .updateTable('jobs')
    .set({ state: 'queued', run_at, scheduled_for, attempts: 0 })
    .where('id', '=', job.id)
    .execute();
}
