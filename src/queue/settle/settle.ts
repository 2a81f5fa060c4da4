import type { HandlerDecision } from '../../child/contract.ts';
import { isPlainRule, parseRepeat } from '../../schedule/repeat/parse.ts';
import { type PlannedTime, planNext } from '../../schedule/repeat/plan.ts';
import type { ClaimRef, HeldRow, RunStart, StoreSession } from '../../store/contract.ts';
import { isStoreFailure } from '../../store/failures.ts';
import { type FinishedRun, isFailure, type JobRow, type JobState, type StoredEvent } from '../../store/schema.ts';
import type { Archive } from './archive.ts';
import { cancelChildren, releaseChildren, resumeParentIfDone, stateOfRetriedChild } from './families.ts';
import { CALM_MS, decideRetry, policyOfJob, type RetryDecision, type RetryPolicy } from './retry-policy.ts';

/** A run that is over, and what is known of it. */
export interface RunToSettle {
  readonly claim: ClaimRef;
  /** `attempt` is what the run was told; the job's own count decides. */
  readonly start: RunStart;
  /** Its row, if it has lasted long enough to have one. */
  readonly runId: number | null;
  readonly end: FinishedRun;
  /** JSON that the handler gave back; null: it gave none. */
  readonly result: string | null;
  readonly decision: HandlerDecision | null;
  /** False: another try would end alike. */
  readonly isRetryable: boolean;
  /** What the script or handler says of further tries. */
  readonly policy: RetryPolicy;
  readonly spoolId?: string | null;
}

/** What the transition of a job depends on besides itself. */
export interface SettleContext {
  /** When it became known, if later than it happened; epoch milliseconds. */
  readonly observedAt?: number;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** What is kept of jobs that have ended; without it, all. */
  readonly archive?: Archive;
}

/** What a settled run leaves behind. */
export interface Settled {
  /** Null: its claim was lost meanwhile, and who has the job now has the say. */
  readonly decision: RetryDecision | null;
  /** Null: its row was not written. */
  readonly runId: number | null;
}

/**
 * The one place where the outcome of a try is turned into what follows: of scripts and of the queue's jobs,
 * whether the worker itself tells of it, or whoever finds it dead, or a spool. To be called in a
 * transaction; what it reads is locked there.
 */
export async function settleRuns(
  session: StoreSession,
  runs: readonly RunToSettle[],
  context: SettleContext,
): Promise<Settled[]> {
  if (runs.length === 0) return [];
  await session.jobs.lock(runs.map(({ claim }) => claim.id));
  const held = new Map<string, HeldRow>();
  for (const job of await session.claims.held(runs.map(({ claim }) => claim))) {
    held.set(job.claim_token as string, job);
  }
  const settled: Settled[] = [];
  const calm = new Set<string>();
  for (const run of runs) {
    const job = held.get(run.claim.token);
    settled.push(job === undefined ? await keepLate(session, run) : await settleRun(session, job, run, context, calm));
  }
  return settled;
}

/** Its claim was lost: only what it has printed is still written down. */
async function keepLate(session: StoreSession, run: RunToSettle): Promise<Settled> {
  const { runId, claim, end } = run;
  if (runId !== null) await session.runs.addOutput({ runId, jobId: claim.id }, end);
  return { decision: null, runId };
}

async function settleRun(
  session: StoreSession,
  job: HeldRow,
  run: RunToSettle,
  context: SettleContext,
  calm: Set<string>,
): Promise<Settled> {
  const at = context.observedAt ?? run.end.finished_at ?? run.start.startedAt;
  const begun = asBegun(job, run.start);
  const { transition, decision } = decide(begun, run, at);
  const facts = { at, reason: transition.reason ?? run.end.reason, context, isRun: true };
  const leftJob = await applyTransition(session, begun, transition, facts);
  const start = { ...run.start, attempt: begun.attempts };
  const ended = { ...start, runId: run.runId, end: run.end, spoolId: run.spoolId ?? null };
  const left = leftJob === 'finished' || isQueuedAgain(leftJob, run.end) ? null : leftJob;
  const [runId] = await session.runs.end([{ ...ended, leftJob: left }]);
  const isKept = await removeUnkept(session, begun, leftJob, context.archive);
  const isLate = ended.spoolId !== null;
  await noteEnd(session, { ...run.start, runId: isKept ? runId : null, end: run.end, leftJob, at, isLate }, calm);
  return { decision, runId: runId ?? null };
}

/** A run that has ended, and what became of its job. */
interface NotedEnd extends Pick<RunStart, 'script' | 'startedAt'> {
  readonly runId: number | null | undefined;
  readonly end: FinishedRun;
  readonly leftJob: JobState | null;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Whether it is told late, from a spool. */
  readonly isLate?: boolean;
}

/**
 * What people are told follows from it: that its script has failed for good, or does so no longer. To be called in
 * the transaction that settles the run.
 *
 * @param calm scripts of which nothing is open since a success that was noted in the same transaction
 */
export async function noteEnd(session: StoreSession, run: NotedEnd, calm: Set<string> = new Set()): Promise<void> {
  const { script, end, leftJob, at, isLate = false } = run;
  if (end.outcome === 'succeeded') {
    if (calm.has(script)) return;
    calm.add(script);
    const calmMs = script.startsWith('queue/') ? CALM_MS : null;
    const success = { subject: script, code: 'script-failing', at, calmMs };
    await session.incidents.succeed(isLate ? { ...success, seenBy: at } : success);
  } else if (isFailure(end.outcome) && leftJob !== 'retrying') {
    calm.delete(script);
    const { noteFailure } = await import('./incidents.ts');
    await noteFailure(session, { ...run, runId: run.runId ?? null, isLate });
  }
}

/** A repeating job that succeeded is queued at once: it has finished all the same. */
function isQueuedAgain(state: JobState, { outcome }: FinishedRun): boolean {
  return state === 'queued' && outcome === 'succeeded';
}

/** What was claimed and has not been recorded as begun has begun all the same. */
function asBegun(job: HeldRow, { startedAt }: RunStart): HeldRow {
  if (job.state !== 'claimed') return job;
  return { ...job, state: 'running', attempts: job.attempts + 1, started_at: startedAt };
}

/** What becomes of a job whose claim, or whose wait, ends. */
export type Transition =
  | { readonly kind: 'finish'; readonly result?: string | null; readonly data?: string }
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      /** False: it was given back, and has all the tries that it had before. */
      readonly isTry: boolean;
      readonly priority?: number;
      readonly name?: string;
      readonly data?: string;
    }
  | {
      readonly kind: 'fail';
      readonly data?: string;
      /** It has no tries left; nobody has said that it is to fail for good. */
      readonly isSpent?: boolean;
    }
  | { readonly kind: 'bury'; readonly priority?: number }
  | { readonly kind: 'cancel' };

/** Of what was given back without a word. */
const atOnce = { kind: 'retry', delayMs: 0 } as const;

interface Decided {
  readonly transition: Transition & { readonly reason?: string };
  readonly decision: RetryDecision;
}

function decide(job: JobRow, run: RunToSettle, at: number): Decided {
  const { end, result, isRetryable } = run;
  const asked = run.decision ?? (end.outcome === 'released' ? atOnce : null);
  if (end.outcome === 'succeeded') {
    return { transition: { kind: 'finish', result }, decision: { state: 'finished' } };
  }
  if (asked?.kind === 'fail') {
    return { transition: { kind: 'fail', reason: asked.reason }, decision: { state: 'failed' } };
  }
  const policy = job.tier === null ? policyOfJob(job.retry, run.policy) : run.policy;
  if (asked?.kind === 'retry') {
    const { kind, delayMs = policy.delay.firstMs, ...changes } = asked;
    const runAt = at + delayMs;
    return {
      transition: { kind, runAt, isTry: false, ...changes },
      decision: { state: 'retrying', runAt },
    };
  }
  const ended = { outcome: end.outcome, attempt: job.attempts, isRetryable, at };
  const decision = decideRetry(policy, ended);
  return { transition: toTransition(decision), decision };
}

/** What a decision makes of a job. */
export function toTransition(decision: RetryDecision): Transition {
  if (decision.state === 'retrying') return { kind: 'retry', runAt: decision.runAt, isTry: true };
  if (decision.state === 'finished') return { kind: 'finish' };
  return decision.state === 'cancelled' ? { kind: 'cancel' } : { kind: 'fail', isSpent: true };
}

export interface TransitionFacts {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** One sentence; null: there is nothing to be said. */
  readonly reason: string | null;
  readonly context: Pick<SettleContext, 'missedCap' | 'archive'>;
  /** A run's row tells of it; else an event does. */
  readonly isRun: boolean;
}

/** What a claim leaves behind when it is over. */
export const unclaimed = { claim_token: null, lease_expires_at: null, lease_extended: 0 } as const;

/**
 * Moves a job, and with it what depends on it of its family. To be called in a transaction, with the row
 * as it is in that.
 *
 * @returns the state that the job is in now
 */
export async function applyTransition(
  session: StoreSession,
  job: SettledJob,
  transition: Transition,
  facts: TransitionFacts,
): Promise<JobState> {
  if (transition.kind === 'finish') return await finish(session, job, transition, facts);
  if (transition.kind === 'retry') return await retry(session, job, transition, facts);
  return await giveUp(session, job, transition, facts);
}

type Columns = Partial<JobRow>;

/** Most jobs have no children, and whoever holds a claim knows it: nothing is looked for then. */
type SettledJob = JobRow & Partial<Pick<HeldRow, 'has_children'>>;

/** `attempts` and `started_at` stand in the row only now, if its run was a short one. */
async function change(
  session: StoreSession,
  job: JobRow,
  columns: Columns & { readonly state: JobState },
  { at }: TransitionFacts,
): Promise<JobState> {
  const { attempts, started_at } = job;
  const set = { ...unclaimed, attempts, started_at, ...columns };
  await session.jobs.change([{ id: job.id, set }], at);
  return columns.state;
}

async function finish(
  session: StoreSession,
  job: SettledJob,
  { result = null, data }: Extract<Transition, { kind: 'finish' }>,
  facts: TransitionFacts,
): Promise<JobState> {
  const { at, reason } = facts;
  const done = { result, reason, ...(data !== undefined && { data }) };
  const isParent = job.tier === null && job.has_children !== false;
  if (isParent && (await session.jobs.hasOpenChildren(job.id))) {
    await session.jobs.markReported(job.id);
    await change(session, job, { ...done, state: 'paused' }, facts);
    await releaseChildren(session, job.id, at);
    return 'paused';
  }
  if (isParent) await session.jobs.markReported(job.id);
  // A child with a rule, which only plain SQL could give it, would keep its parent waiting for ever.
  if (job.repeat !== null && job.parent_id === null) {
    return await repeat(session, job, done, facts);
  }
  return await finishForGood(session, job, done, facts);
}

async function finishForGood(
  session: StoreSession,
  job: JobRow,
  done: Columns,
  facts: TransitionFacts,
): Promise<JobState> {
  await change(session, job, { ...done, state: 'finished', finished_at: facts.at }, facts);
  await resumeParentIfDone(session, job.parent_id, facts.at);
  return 'finished';
}

async function repeat(session: StoreSession, job: JobRow, done: Columns, facts: TransitionFacts): Promise<JobState> {
  const planned = await planRepeat(job, facts.at, facts.context.missedCap);
  if (planned === null) return await finishForGood(session, job, done, facts);
  if ('problem' in planned) {
    // Only plain SQL could put it there.
    const reason = `its rule ${JSON.stringify(job.repeat)} gives no next time: ${planned.problem}`;
    const failed = { ...done, state: 'failed' as const, finished_at: facts.at, reason };
    return await change(session, job, failed, facts);
  }
  return await change(session, job, { ...done, ...toNext(planned) }, facts);
}

function toNext({ runAt, scheduledFor }: PlannedTime) {
  return { state: 'queued', run_at: runAt, scheduled_for: scheduledFor, attempts: 0 } as const;
}

/** Null: its rule gives no time any more. */
export async function planRepeat(job: JobRow, at: number, cap: number) {
  const parsed = parseRepeat(job.repeat as string);
  if ('problem' in parsed) return parsed;
  const moments = {
    scheduled: job.scheduled_for ?? job.run_at,
    started: job.started_at,
    finished: at,
  };
  return await planNext(parsed.rule, moments, { missed: job.missed_policy, nowMs: at, cap });
}

async function retry(
  session: StoreSession,
  job: JobRow,
  transition: Extract<Transition, { kind: 'retry' }>,
  facts: TransitionFacts,
): Promise<JobState> {
  const { runAt, isTry, priority, name, data } = transition;
  const state = job.parent_id === null ? 'retrying' : await stateOfRetriedChild(session, job.parent_id);
  if (state === 'cancelled') {
    const reason = `its parent, job ${job.parent_id}, has ended`;
    return await giveUp(session, job, { kind: 'cancel' }, { ...facts, reason });
  }
  const columns = {
    state,
    run_at: runAt,
    reason: facts.reason,
    ...(!isTry && { attempts: Math.max(job.attempts - 1, 0) }),
    ...(priority !== undefined && { priority }),
    ...(name !== undefined && { name }),
    ...(data !== undefined && { data }),
  };
  await change(session, job, columns, facts);
  return 'retrying';
}

async function giveUp(
  session: StoreSession,
  job: JobRow,
  transition: Extract<Transition, { kind: 'fail' | 'bury' | 'cancel' }>,
  facts: TransitionFacts,
): Promise<JobState> {
  const isSpent = transition.kind === 'fail' && transition.isSpent === true;
  if (isSpent && repeatsAfterFailure(job)) {
    const planned = await planRepeat(job, facts.at, facts.context.missedCap);
    if (planned !== null && !('problem' in planned)) {
      return await repeatFailed(session, job, planned, facts);
    }
  }
  return await endForGood(session, job, transition, facts);
}

/** Only a rule in plain words says when a job runs, whatever became of it; Bedrock's say what follows a finish. */
function repeatsAfterFailure({ repeat, parent_id }: JobRow): boolean {
  return repeat !== null && parent_id === null && isPlainRule(repeat);
}

/** The try has failed for good; the job goes on at its next time. */
async function repeatFailed(
  session: StoreSession,
  job: JobRow,
  planned: PlannedTime,
  facts: TransitionFacts,
): Promise<JobState> {
  await change(session, job, { ...toNext(planned), reason: facts.reason }, facts);
  await cancelChildren(session, job.id, facts.at);
  await session.jobs.markReported(job.id);
  return 'failed';
}

const eventsOfEnds = {
  fail: 'job-failed',
  bury: 'job-buried',
  cancel: 'job-cancelled',
} as const satisfies Record<string, StoredEvent>;

async function endForGood(
  session: StoreSession,
  job: JobRow,
  transition: Extract<Transition, { kind: 'fail' | 'bury' | 'cancel' }>,
  facts: TransitionFacts,
): Promise<JobState> {
  const { kind } = transition;
  const { at, reason } = facts;
  const state = kind === 'cancel' ? 'cancelled' : 'failed';
  const columns = {
    state,
    finished_at: at,
    reason,
    ...(kind === 'fail' && transition.data !== undefined && { data: transition.data }),
    ...(kind === 'bury' && transition.priority !== undefined && { priority: transition.priority }),
  } as const;
  await change(session, job, columns, facts);
  // That it was buried is more than that its run has failed.
  if (!facts.isRun || kind === 'bury') {
    await session.events.record([{ at, event: eventsOfEnds[kind], jobId: job.id, detail: reason }]);
  }
  if (job.tier === null) await cancelChildren(session, job.id, at);
  await resumeParentIfDone(session, job.parent_id, at);
  return state;
}

/**
 * Removes a job of the queue that has just ended, with its runs, if it is not to be kept. A child is kept
 * for its parent, which is to be told of it.
 *
 * @returns whether it was kept
 */
export async function removeUnkept(
  session: StoreSession,
  { id, name, parent_id, tier }: JobRow,
  state: JobState,
  archive: Archive | undefined,
): Promise<boolean> {
  const hasEnded = state === 'finished' || state === 'failed' || state === 'cancelled';
  if (archive === undefined || archive.keepsAll || tier !== null || !hasEnded) return true;
  if (parent_id !== null || archive.keeps(name, state)) return true;
  const [job] = await session.jobs.byId([id]);
  // One that repeats has not ended.
  if (job?.finished_at == null) return true;
  const children = (await session.jobs.children(id)).filter(
    // One that runs on goes when it is old.
    (child) => child.finished_at !== null && !archive.keeps(child.name, child.state),
  );
  archive.onRemoved(await session.jobs.delete([id, ...children.map((child) => child.id)]));
  return false;
}

/** What a handler's process may have said of itself. */
const unsaid = {
  ...{ user_cpu_ms: null, system_cpu_ms: null, max_rss_bytes: null, rss_delta_bytes: null },
  ...{ measured_by: null, error_name: null, error_message: null, error_stack: null },
} as const;

/**
 * The same run as one that has failed, because the log refuses its end as it is: for what its handler said of
 * it, or for what somebody wrote into its job. One job must not stand in the way of all others.
 *
 * @throws the error itself where the log is to blame
 */
export function asRefused(run: RunToSettle, error: unknown): RunToSettle {
  if (isStoreFailure(error)) throw error;
  const reason = `its end could not be recorded: ${(error as Error).message}`;
  const end = { ...run.end, ...unsaid, outcome: 'failed' as const, reason };
  return { ...run, end, result: null, decision: null, isRetryable: false };
}
