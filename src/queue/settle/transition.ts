import { type PlannedTime, planNext } from '../../schedule/repeat/plan.ts';
import { isPlainRule } from '../../schedule/repeat/rule.ts';
import type { JobRow } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { HeldRow } from '../../store/statements/claims.ts';
import type { JobChange } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState, StoredEvent } from '../../store/words.ts';
import type { Archive } from './archive.ts';
import { cancelChildren, releaseChildren, resumeParentIfDone, stateOfRetriedChild } from './families.ts';
import type { RetryDecision } from './retry-policy.ts';

/** The change of a job whose claim, or whose wait, ends. */
export type Transition =
  | { readonly kind: 'finish'; readonly result?: string | null; readonly data?: string }
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      /** False: the job was given back, and keeps all its tries. */
      readonly isTry: boolean;
      readonly priority?: number;
      readonly name?: string;
      readonly data?: string;
    }
  | {
      readonly kind: 'fail';
      readonly data?: string;
      /** True: it has no tries left, but nobody has decided that it fails for good. */
      readonly isSpent?: boolean;
    }
  | { readonly kind: 'bury'; readonly priority?: number }
  | { readonly kind: 'cancel' };

/** Converts a decision to the job's transition. */
export function toTransition(decision: RetryDecision): Transition {
  if (decision.state === 'retrying') return { kind: 'retry', runAt: decision.runAt, isTry: true };
  if (decision.state === 'finished') return { kind: 'finish' };
  return decision.state === 'cancelled' ? { kind: 'cancel' } : { kind: 'fail', isSpent: true };
}

/** The conditions of a transition that do not depend on the job or the caller. */
export interface TransitionContext {
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** Decides which ended jobs are kept; absent: all. */
  readonly archive?: Archive;
}

export interface TransitionFacts {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** One sentence; null: no reason. */
  readonly reason: string | null;
  readonly context: TransitionContext;
  /** Whether a run's row records the end; otherwise an event does. */
  readonly isRun: boolean;
  /** Collects the changes of the job for the caller to write; absent: they are written at once. */
  readonly changes?: JobChange[];
}

/** The columns of a job without a claim. */
export const unclaimed = { claim_token: null, lease_expires_at: null, lease_extended: 0 } as const;

/**
 * Moves a job to its next state, and the jobs of its family that depend on it. Call it in a transaction, with the row
 * read in that transaction.
 *
 * @returns the new state of the job
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

/** Most jobs have no children. The holder of a claim knows it, which saves looking for them. */
type SettledJob = JobHead & Partial<Pick<HeldRow, 'has_children'>>;

/** For a short run, `attempts` and `started_at` are written to the row only now. */
async function change(
  session: StoreSession,
  job: JobHead,
  columns: Columns & { readonly state: JobState },
  { at, changes }: TransitionFacts,
): Promise<JobState> {
  const { id, attempts, started_at } = job;
  const made = { id, set: { ...unclaimed, attempts, started_at, ...columns } };
  if (changes === undefined) await session.jobs.change([made], at);
  else changes.push({ ...made, isChildless: true });
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
  // A child with a rule, which only plain SQL can give it, would keep its parent waiting for ever.
  if (job.repeat !== null && job.parent_id === null) {
    return await repeat(session, job, done, facts);
  }
  return await finishForGood(session, job, done, facts);
}

async function finishForGood(
  session: StoreSession,
  job: JobHead,
  done: Columns,
  facts: TransitionFacts,
): Promise<JobState> {
  await change(session, job, { ...done, state: 'finished', finished_at: facts.at }, facts);
  await resumeParentIfDone(session, job.parent_id, facts.at);
  return 'finished';
}

async function repeat(session: StoreSession, job: JobHead, done: Columns, facts: TransitionFacts): Promise<JobState> {
  const planned = await planRepeat(job, facts.at, facts.context.missedCap);
  if (planned === null) return await finishForGood(session, job, done, facts);
  if ('problem' in planned) {
    // Only plain SQL can have written this rule.
    const reason = `its rule ${JSON.stringify(job.repeat)} gives no next time: ${planned.problem}`;
    const failed = { ...done, state: 'failed' as const, finished_at: facts.at, reason };
    await (await import('./incidents.ts')).noteUnbegun(session, job, reason, facts.at);
    return await change(session, job, failed, facts);
  }
  return await change(session, job, { ...done, ...toNext(planned) }, facts);
}

function toNext({ runAt, scheduledFor }: PlannedTime) {
  return { state: 'queued', run_at: runAt, scheduled_for: scheduledFor, attempts: 0 } as const;
}

/** Null: its rule gives no further time. */
export async function planRepeat(job: JobHead, at: number, cap: number) {
  const { parseRepeat } = await import('../../schedule/repeat/parse.ts');
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
  job: JobHead,
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
  job: SettledJob,
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

/** Only a rule in plain words gives a job its time whatever its outcome; Bedrock's rules apply after a finish. */
function repeatsAfterFailure({ repeat, parent_id }: JobHead): boolean {
  return repeat !== null && parent_id === null && isPlainRule(repeat);
}

/** The try has failed for good; the job goes on at its next time. */
async function repeatFailed(
  session: StoreSession,
  job: JobHead,
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
  job: SettledJob,
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
  // A burial is more than the failure of a run, so it has its own event.
  if (!facts.isRun || kind === 'bury') {
    await session.events.record([{ at, event: eventsOfEnds[kind], jobId: job.id, detail: reason }]);
  }
  if (job.tier === null && job.has_children !== false) await cancelChildren(session, job.id, at);
  await resumeParentIfDone(session, job.parent_id, at);
  return state;
}

/**
 * Removes a queued job that has just ended, with its runs, unless it is to be kept. A child is kept until its parent
 * has learned of its end.
 *
 * @returns whether it was kept
 */
export async function removeUnkept(
  session: StoreSession,
  { id, name, parent_id, tier }: JobHead,
  state: JobState,
  archive: Archive | undefined,
): Promise<boolean> {
  const hasEnded = state === 'finished' || state === 'failed' || state === 'cancelled';
  if (archive === undefined || archive.keepsAll || tier !== null || !hasEnded) return true;
  if (parent_id !== null || archive.keeps(name, state)) return true;
  const [job] = await session.jobs.byId([id]);
  // A repeating job has not ended.
  if (job?.finished_at == null) return true;
  const children = (await session.jobs.children(id)).filter(
    // A child that still runs is removed later, when it is old.
    (child) => child.finished_at !== null && !archive.keeps(child.name, child.state),
  );
  archive.unnamed.push(...(await session.jobs.delete([id, ...children.map((child) => child.id)])));
  return false;
}
