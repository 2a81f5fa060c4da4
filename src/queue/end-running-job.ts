import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import type { Archive } from './archive.ts';
import { endClaim } from './end-claim.ts';
import type { Ending, EndingFacts } from './end-job.ts';
import { toEnding } from './end-queued-run.ts';
import { findJob } from './find-job.ts';
import { writeJson } from './job-values.ts';
import type { FailOptions, FinishOptions, JobRef } from './queue.ts';
import { type JobVerb, wrongState } from './refusals.ts';
import { judgeTry, toPolicy } from './retry-policy.ts';

/** What an end depends on besides its job. */
export interface EndingContext {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** What is kept of jobs that have ended. */
  readonly archive: Archive;
}

/** Ends a running job as finished. */
export async function finishRunningJob(
  db: Database,
  ref: JobRef,
  { result, data }: FinishOptions,
  context: EndingContext,
): Promise<void> {
  const ending = {
    kind: 'finish' as const,
    result: result === undefined ? null : writeJson("A job's result", result),
    ...dataOf(data),
  };
  await db.transaction().execute(async (transaction) => {
    const job = await findRunningJob(transaction, ref, 'finish');
    await endClaim(transaction, job, ending, factsOf(context, null));
  });
}

/** Ends a running job as failed: for good, or only its try. */
export async function failRunningJob(
  db: Database,
  ref: JobRef,
  { reason = 'it was failed by who had claimed it', data, mayRetry = false }: FailOptions,
  context: EndingContext,
): Promise<void> {
  const written = dataOf(data);
  await db.transaction().execute(async (transaction) => {
    const job = await findRunningJob(transaction, ref, 'fail');
    const kind = mayRetry ? judgeFailedTry(job, context.at) : ({ kind: 'fail' } as const);
    await endClaim(transaction, job, { ...kind, ...written }, factsOf(context, reason));
  });
}

/** As after a failed run of the runner's own. */
function judgeFailedTry(job: JobRow, at: number): Ending {
  const failed = { outcome: 'failed', attempt: job.attempts, isRetryable: true, at } as const;
  return toEnding(judgeTry(toPolicy(job), failed));
}

/** @throws {QueueError} if it does not run, or not for who has this claim */
export async function findRunningJob(db: Database, ref: JobRef, verb: JobVerb): Promise<JobRow> {
  const job = await findJob(db, ref);
  if (job.state !== 'running') throw wrongState(job, verb);
  return job;
}

/** Who ends a job like this is no worker of the runner. */
export function factsOf(context: EndingContext, reason: string | null): EndingFacts {
  return { ...context, workerId: null, reason };
}

/** The data that replaces a job's, as its row holds it. */
export function dataOf(data: unknown): { readonly data?: string } {
  return data === undefined ? {} : { data: writeJson("A job's data", data) };
}
