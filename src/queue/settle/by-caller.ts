import { withoutParameters } from '../../discovery/job-name.ts';
import type { FinishedRun, JobRow } from '../../store/schema.ts';
import { workerOf } from '../../store/shared/claims.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { StartedRunRow } from '../../store/statements/runs.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState, Outcome } from '../../store/words.ts';
import { invalid, readPriority, readRunAt, requireDelayMs, requireJobName, writeJson } from '../add/values.ts';
import type { BuryOptions, FailOptions, FinishOptions, JobRef, RequeueOptions, RetryOptions } from '../api.ts';
import { type JobVerb, QueueError, refuse, wrongState } from '../errors.ts';
import { type Patterns, readPatterns } from '../patterns.ts';
import { findJob, findRow, readJobId, type VerbSession } from '../read/jobs.ts';
import { isEnded, isWaiting, nextToKick } from '../read/list.ts';
import { policyOfJob } from './own-retry.ts';
import { decideRetry, type PolicyOfName, type RetryPolicy } from './retry-policy.ts';
import { noteEnd, type SettleContext } from './settle.ts';
import {
  applyTransition,
  planRepeat,
  removeUnkept,
  type Transition,
  type TransitionContext,
  toTransition,
  unclaimed,
} from './transition.ts';

/** The conditions of an end, besides its job. Call all functions of this file in a transaction. */
export interface CallerContext extends TransitionContext {
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/** Ends a running job as finished. */
export async function finishRunningJob(
  session: VerbSession,
  ref: JobRef,
  { result, data }: FinishOptions,
  context: CallerContext,
): Promise<void> {
  const job = await findRunningJob(session, ref, 'finish');
  const written = result === undefined ? null : writeJson('result', result);
  const transition = { kind: 'finish', result: written, ...dataOf(data) } as const;
  await endClaim(session, job, transition, context, { reason: null, outcome: 'succeeded' });
}

/** Ends a running job as failed: for good, or only its try, if the policies of handlers are given. */
export async function failRunningJob(
  session: VerbSession,
  ref: JobRef,
  { reason = 'it was failed by its claimant', data }: FailOptions,
  context: CallerContext,
  handlerPolicy: PolicyOfName | null,
): Promise<void> {
  const job = await findRunningJob(session, ref, 'fail');
  const isFinal = handlerPolicy === null;
  const kind = isFinal ? ({ kind: 'fail' } as const) : decideFailedTry(job, handlerPolicy(job.name), context.at);
  const transition = { ...kind, ...dataOf(data) };
  await endClaim(session, job, transition, context, { reason, outcome: 'failed' });
}

/** Decides as after a failed run of the runner's own. */
function decideFailedTry({ retry, attempts: attempt }: JobHead, handler: RetryPolicy, at: number): Transition {
  const failed = { outcome: 'failed', attempt, isRetryable: true, at } as const;
  return toTransition(decideRetry(policyOfJob(retry, handler), failed));
}

/** @throws {QueueError} if the job is not running, or not under this claim */
async function findRunningJob(session: VerbSession, ref: JobRef, verb: JobVerb): Promise<JobHead> {
  const job = await findJob(session, ref);
  if (job.state !== 'running') throw wrongState(job, verb);
  return job;
}

/** The new data of a job, as a row holds it. */
function dataOf(data: unknown): { readonly data?: string } {
  return data === undefined ? {} : { data: writeJson('data', data) };
}

/**
 * Puts a running job back into the queue: a repeating one at its next time, unless that is ignored; any other one at
 * the given time, or after the delay.
 */
export async function retryRunningJob(
  session: VerbSession,
  ref: JobRef,
  options: RetryOptions,
  context: CallerContext,
): Promise<void> {
  const { reason = null, ignoreRepeat = false } = options;
  const transition = readRetryOptions(options, context.at);
  const job = await findRunningJob(session, ref, 'retry');
  await endClaim(session, job, transition, context, { reason, outcome: 'released' });
  if (job.repeat !== null && !ignoreRepeat) await setNextTime(session, job, context);
}

function readRetryOptions(options: RetryOptions, at: number): Transition {
  const { delay, runAt, priority, name, data } = options;
  return {
    kind: 'retry',
    isTry: false,
    runAt: readRunAt(runAt ?? at + requireDelayMs('The delay', delay ?? '0', 'delay'), at),
    ...(priority !== undefined && { priority: readPriority(priority) }),
    ...(name !== undefined && { name: requireJobName(name) }),
    ...dataOf(data),
  };
}

/** The next time begins anew: earlier tries do not count for it. */
async function setNextTime(session: StoreSession, job: JobHead, { at, missedCap }: CallerContext): Promise<void> {
  const planned = await planRepeat(job, at, missedCap);
  // If the rule gives no further time, the time of the retry stays.
  if (planned === null) return;
  if ('problem' in planned) throw new QueueError('wrong-state', planned.problem);
  const { runAt: run_at, scheduledFor: scheduled_for } = planned;
  const set = { state: 'queued' as const, run_at, scheduled_for, attempts: 0 };
  await session.jobs.change([{ id: job.id, set }], at);
}

/** Sets a running or waiting job aside until it is kicked. */
export async function buryJob(
  session: VerbSession,
  ref: JobRef,
  { priority, reason = 'it was buried' }: BuryOptions,
  at: number,
): Promise<void> {
  const job = await findJob(session, ref);
  if (job.state !== 'running' && !isWaiting(job.state)) throw wrongState(job, 'bury');
  const transition = {
    kind: 'bury',
    ...(priority !== undefined && { priority: readPriority(priority) }),
  } as const;
  // No archive applies: the job must stay, so that it can be kicked.
  await endClaim(session, job, transition, { at, missedCap: 0 }, { reason, outcome: 'failed' });
}

/** Ends a waiting or failed job as cancelled, and its waiting children with it. A cancelled job stays as it is. */
export async function cancelJob(session: VerbSession, id: number, context: CallerContext): Promise<void> {
  const job = await findJob(session, id);
  if (job.state === 'cancelled') return;
  if (job.state === 'running' || job.state === 'finished') throw wrongState(job, 'cancel');
  const told = { reason: 'it was cancelled', outcome: 'failed' } as const;
  await endClaim(session, job, { kind: 'cancel' }, context, told);
}

interface Told {
  readonly reason: string | null;
  /** How its run has ended, if it has one. */
  readonly outcome: Exclude<Outcome, 'running'>;
}

async function endClaim(
  session: StoreSession,
  job: JobHead,
  transition: Transition,
  { at, ...context }: CallerContext,
  told: Told,
): Promise<void> {
  await endRunOfClaim(session, job, transition, { at, context, ...told });
  await keepClaim(session, job, at);
}

/**
 * A worker of the runner still has to end the process of a job that others have ended. Until then its claim counts:
 * nobody else begins the job, its group has one place less, and no other job with its unique key begins.
 */
async function keepClaim(session: StoreSession, { id, claim_token }: JobHead, at: number): Promise<void> {
  if (claim_token === null || workerOf(claim_token) === null) return;
  await session.jobs.change([{ id, set: { claim_token } }], at);
}

interface RunOfClaimEnd extends Told {
  readonly at: number;
  readonly context: SettleContext;
}

/**
 * Ends a job for a caller other than its worker. Its run is closed without measurements; a later report by the worker
 * is refused. Call it in a transaction.
 */
export async function endRunOfClaim(
  session: StoreSession,
  job: JobHead,
  transition: Transition,
  { at, reason, outcome, context }: RunOfClaimEnd,
): Promise<void> {
  const run = await findOpenRun(session, job, at);
  const facts = { at, reason, context, isRun: run !== null };
  const begun = run === null ? job : { ...job, started_at: run.startedAt };
  const leftJob = await applyTransition(session, begun, transition, facts);
  let ended: { readonly runId: number | undefined; readonly end: FinishedRun } | null = null;
  if (run !== null) {
    const sentence = outcome === 'succeeded' ? null : (reason ?? 'it was given back');
    const end = { ...nothingKnown, outcome, finished_at: at, reason: sentence };
    const duration_ms = outcome === 'crashed' ? null : durationOf(run.startedAt, at);
    const left = transition.kind === 'finish' && leftJob !== 'paused' ? null : leftJob;
    ended = await endRun(session, run, { ...end, duration_ms }, left);
  }
  const isKept = await removeUnkept(session, job, leftJob, context.archive);
  // A person who cancels or buries a job knows about it.
  const isMeant = transition.kind === 'cancel' || transition.kind === 'bury';
  if (run === null || ended === null || isMeant) return;
  await noteEnd(session, { ...run, ...ended, runId: isKept ? ended.runId : null, leftJob, at });
}

type OpenRun = Pick<StartedRunRow, 'jobId' | 'key' | 'script' | 'startedAt' | 'attempt' | 'timeoutMs'> & {
  readonly id: number | null;
};

/** The run of a job. A job that was claimed, and that nobody has seen begin, gets a run that begins now. */
async function findOpenRun(
  session: StoreSession,
  { id: jobId, name, state, attempts: attempt, claim_token }: JobHead,
  at: number,
): Promise<OpenRun | null> {
  if (state !== 'running') return null;
  const run = await session.runs.running(jobId);
  if (run !== null || claim_token === null) return run;
  const script = `queue/${withoutParameters(name)}`;
  return { id: null, jobId, key: null, script, startedAt: at, attempt, timeoutMs: null };
}

/** Ends a run, whatever happens to its job. Call it in a transaction. */
async function endRun(
  session: StoreSession,
  { id: runId, ...run }: OpenRun,
  end: FinishedRun,
  leftJob: JobHead['state'] | null,
) {
  const start = { ...run, workerId: null, contentHash: null, scheduledFor: null };
  const [written] = await session.runs.end([{ ...start, runId, end, leftJob }]);
  return { runId: written, end };
}

/** The columns of a run of which only the end is known. */
const nothingKnown = {
  ...{ duration_ms: null, user_cpu_ms: null, system_cpu_ms: null, max_rss_bytes: null },
  ...{ rss_delta_bytes: null, measured_by: null, exit_code: null, signal: null, warning: null, suspect: 0 },
  ...{ error_name: null, error_message: null, error_stack: null, output: null },
  ...{ output_bytes: null, output_dropped_bytes: null, output_file: null, output_file_bytes: null },
} as const satisfies Partial<FinishedRun>;

/** Null: unknown, as when the clock was set back meanwhile. */
function durationOf(startedAt: number, endedAt: number): number | null {
  return endedAt < startedAt ? null : endedAt - startedAt;
}

/**
 * Kicks jobs of these names, in the order of {@link nextToKick}. It skips jobs that cannot be queued again: a child
 * whose parent has ended, a job whose unique key belongs to another one by now. Call it in a transaction.
 *
 * @returns how many were kicked
 */
export async function kickJobs(session: StoreSession, patterns: Patterns, count: number, at: number): Promise<number> {
  const globs = readPatterns(patterns);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw invalid('The number of jobs to kick', 'a whole number above 0', count);
  }
  const ids = await nextToKick(session, globs, count, at);
  await session.jobs.lock(ids);
  // Somebody may have been faster.
  const jobs = (await session.jobs.byId(ids)).filter((job) => mayBeKicked(job, at));
  for (const job of jobs) await kick(session, job, at);
  return jobs.length;
}

function mayBeKicked({ state, run_at }: JobHead, at: number): boolean {
  return state === 'failed' || (isWaiting(state) && run_at > at);
}

/** Makes a failed or delayed job due at once, with all its tries. Call it in a transaction. */
export async function kickJob(session: VerbSession, id: number, at: number): Promise<void> {
  const job = await findJob(session, id);
  if (!mayBeKicked(job, at)) throw wrongState(job, 'kick');
  await kick(session, job, at);
}

async function kick(session: StoreSession, job: JobHead, at: number): Promise<void> {
  const state = await stateOfRevived(session, job);
  const set = { ...asUnfinished, state, run_at: at, attempts: 0 };
  await session.jobs.change([{ id: job.id, set }], at);
  await session.events.record([{ at, event: 'job-kicked', jobId: job.id }]);
}

/**
 * Queues jobs anew from any state, due since they were added; all or none. Numbers that no job has are skipped. A claim
 * that holds one of them ends. Call it in a transaction.
 *
 * @returns how many were queued
 */
export async function requeueJobs(
  session: VerbSession,
  ids: readonly number[],
  options: RequeueOptions,
  at: number,
): Promise<number> {
  if (!Array.isArray(ids)) throw invalid('The argument of requeue()', 'a list of numbers of jobs', ids);
  const unique = [...new Set(ids.map(readJobId))].sort((one, other) => one - other);
  const renamed = options.name === undefined ? {} : { name: requireJobName(options.name) };
  let count = 0;
  for (const id of unique) {
    const job = await findRow(session, id);
    if (job === null) continue;
    await requeue(session, job, { renamed, forgetTry: options.forgetTry === true, at });
    count += 1;
  }
  return count;
}

interface Requeueing {
  readonly renamed: { readonly name?: string };
  readonly forgetTry: boolean;
  readonly at: number;
}

async function requeue(session: StoreSession, job: JobHead, requeueing: Requeueing): Promise<void> {
  const { renamed, forgetTry, at } = requeueing;
  const isParent = job.state === 'paused' && (await session.jobs.hasOpenChildren(job.id));
  if (isParent) throw wrongState(job, 'requeue');
  const state = await stateOfRevived(session, job);
  const set = {
    ...{ ...asUnfinished, ...renamed, state, run_at: job.created_at },
    attempts: Math.max(job.attempts - (forgetTry ? 1 : 0), 0),
    ...unclaimed,
  };
  await session.jobs.change([{ id: job.id, set }], at);
  await keepClaim(session, job, at);
  await endOpenRun(session, job, requeueing);
  await session.events.record([{ at, event: 'job-requeued', jobId: job.id }]);
}

/** A later report by its worker is refused. */
async function endOpenRun(
  session: StoreSession,
  job: JobHead,
  { forgetTry, at: finished_at }: Requeueing,
): Promise<void> {
  const run = await findOpenRun(session, job, finished_at);
  if (run === null) return;
  const reason = forgetTry ? 'its job was requeued: it never reached a worker' : 'its job was requeued while it ran';
  await endRun(session, run, { ...nothingKnown, outcome: 'released', reason, finished_at }, 'queued');
}

/** The columns of a job that begins anew. */
const asUnfinished = {
  finished_at: null,
  result: null,
  reason: null,
  reported_to_parent: 0,
} as const satisfies Partial<JobRow>;

/**
 * The state in which a job begins anew: queued, except for a child whose parent does not wait for it now, and for a
 * parent that must wait for a child that still runs.
 *
 * @throws {QueueError} if its parent has ended, or another job has its unique key by now
 */
async function stateOfRevived(session: StoreSession, job: JobHead): Promise<Extract<JobState, 'queued' | 'paused'>> {
  if (isEnded(job.state)) await refuseTakenKey(session, job);
  if (job.parent_id === null) return await stateOfParent(session, job);
  const [parent] = await session.jobs.byId([job.parent_id]);
  const state = parent?.state ?? 'finished';
  if (state === 'paused') return 'queued';
  if (!isEnded(state)) return 'paused';
  throw refuse(
    job,
    `belongs to job ${job.parent_id}, which is ${state} and no longer waits for children; add a new job instead.`,
  );
}

/** After a parent's end, only children that were running then can still be open. */
async function stateOfParent(session: StoreSession, { id, state }: JobHead): Promise<'queued' | 'paused'> {
  return isEnded(state) && (await session.jobs.hasOpenChildren(id)) ? 'paused' : 'queued';
}

/** @throws {QueueError} */
async function refuseTakenKey(session: StoreSession, job: JobHead): Promise<void> {
  if (job.unique_key === null) return;
  const [other] = await session.jobs.byUniqueKeys([job.unique_key]);
  if (other === undefined) return;
  throw refuse(
    job,
    `cannot be queued again: job ${other.id} has its unique key ` +
      `${JSON.stringify(job.unique_key)}; wait for that one's end, or cancel it.`,
  );
}
