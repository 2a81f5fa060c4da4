import type { JobRow } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import {
  readPriority,
  readWhen,
  requireDelayMs,
  requireJobName,
  writeJson,
} from '../add/values.ts';
import type { BuryOptions, FailOptions, FinishOptions, JobRef, RetryOptions } from '../api.ts';
import { type JobVerb, QueueError, wrongState } from '../errors.ts';
import { findJob } from '../read/jobs.ts';
import { isWaiting } from '../read/states.ts';
import type { Archive } from './archive.ts';
import { judgeTry, toPolicy } from './retry-policy.ts';
import { endClaim, toEnding } from './settle-run.ts';
import { type Ending, type EndingFacts, endJob, planRepeat } from './transition.ts';

/** What an end depends on besides its job. */
interface EndingContext {
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
  { reason = 'it was failed by its claimant', data, mayRetry = false }: FailOptions,
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
async function findRunningJob(db: Database, ref: JobRef, verb: JobVerb): Promise<JobRow> {
  const job = await findJob(db, ref);
  if (job.state !== 'running') throw wrongState(job, verb);
  return job;
}

/** Who ends a job like this is no worker of the runner. */
function factsOf(context: EndingContext, reason: string | null): EndingFacts {
  return { ...context, workerId: null, reason };
}

/** The data that replaces a job's, as its row holds it. */
function dataOf(data: unknown): { readonly data?: string } {
  return data === undefined ? {} : { data: writeJson("A job's data", data) };
}

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
    runAt: readWhen(runAt ?? at + requireDelayMs('The delay', delay ?? '0'), at),
    ...(priority !== undefined && { priority: readPriority(priority) }),
    ...(name !== undefined && { name: requireJobName(name) }),
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

/** Sets a job that runs, or waits to be taken, aside until it is kicked. */
export async function buryJob(
  db: Database,
  ref: JobRef,
  { priority, reason = 'it was buried' }: BuryOptions,
  at: number,
): Promise<void> {
  const ending = {
    kind: 'bury' as const,
    ...(priority !== undefined && { priority: readPriority(priority) }),
  };
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, ref);
    const isRunning = job.state === 'running';
    if (!isRunning && !isWaiting(job.state)) throw wrongState(job, 'bury');
    const end = isRunning ? endClaim : endJob;
    // Whatever the archive says: it is to be kicked.
    await end(transaction, job, ending, { at, workerId: null, reason, missedCap: 0 });
  });
}

/**
 * Ends a job that waits, or has failed, as cancelled, and with it what waits of its children; one that
 * is cancelled stays as it is.
 */
export async function cancelJob(db: Database, id: number, context: EndingContext): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, id);
    if (job.state === 'cancelled') return;
    if (job.state === 'running' || job.state === 'finished') throw wrongState(job, 'cancel');
    await endJob(transaction, job, { kind: 'cancel' }, factsOf(context, 'it was cancelled'));
  });
}
