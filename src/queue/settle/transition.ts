import { type PlannedTime, planNext } from '../../schedule/repeat/plan.ts';
import { isPlainRule } from '../../schedule/repeat/rule.ts';
import type { HeldRow, JobChange, JobHead } from '../../store/contract/jobs.ts';
import type { StoreSession } from '../../store/contract/store.ts';
import type { JobRow } from '../../store/schema.ts';
import type { JobState, StoredEvent } from '../../store/words.ts';
import type { Archive } from './archive.ts';
import { cancelChildren, releaseChildren, resumeParentIfDone, stateOfRetriedChild } from './families.ts';
import type { RetryDecision } from './retry-policy.ts';

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

/** What a decision makes of a job. */
export function toTransition(decision: RetryDecision): Transition {
  if (decision.state === 'retrying') return { kind: 'retry', runAt: decision.runAt, isTry: true };
  if (decision.state === 'finished') return { kind: 'finish' };
  return decision.state === 'cancelled' ? { kind: 'cancel' } : { kind: 'fail', isSpent: true };
}

/** What the transition of a job depends on besides the job, whoever asks for it. */
export interface TransitionContext {
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** What is kept of jobs that have ended; without it, all. */
  readonly archive?: Archive;
}

export interface TransitionFacts {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** One sentence; null: there is nothing to be said. */
  readonly reason: string | null;
  readonly context: TransitionContext;
  /** A run's row tells of it; else an event does. */
  readonly isRun: boolean;
  /** Takes up what is to be written of the job, by whoever asks; left out: it is written at once. */
  readonly changes?: JobChange[];
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
type SettledJob = JobHead & Partial<Pick<HeldRow, 'has_children'>>;

/** `attempts` and `started_at` stand in the row only now, if its run was a short one. */
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
  // A child with a rule, which only plain SQL could give it, would keep its parent waiting for ever.
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
    // Only plain SQL could put it there.
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

/** Null: its rule gives no time any more. */
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

/** Only a rule in plain words says when a job runs, whatever became of it; Bedrock's say what follows a finish. */
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
  // That it was buried is more than that its run has failed.
  if (!facts.isRun || kind === 'bury') {
    await session.events.record([{ at, event: eventsOfEnds[kind], jobId: job.id, detail: reason }]);
  }
  if (job.tier === null && job.has_children !== false) await cancelChildren(session, job.id, at);
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
  { id, name, parent_id, tier }: JobHead,
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
  archive.unnamed.push(...(await session.jobs.delete([id, ...children.map((child) => child.id)])));
  return false;
}
