import { isPlainRule } from '../../schedule/repeat/rule.ts';
import { type PlannedTime, planNext } from '../../schedule/repeat/series.ts';
import type { JobRow } from '../../store/schema.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { HeldRow } from '../../store/statements/claims.ts';
import { workerOf } from '../../store/statements/job-rows.ts';
import type { JobChange } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState, StoredEvent } from '../../store/words.ts';
import {
  cancelChildren,
  releaseChildren,
  resumeParentIfDone,
  stateOfRetriedChild,
  stateOfRevived,
} from './families.ts';
import type { RetryDecision } from './retry-policy.ts';

type Columns = Partial<JobRow>;

/** The change of a job whose claim or whose wait ends, or that begins anew. */
export type Transition = {
  /** Further columns that the caller changes. */
  readonly set?: Pick<Columns, 'data' | 'name' | 'priority' | 'result'>;
} & (
  | {
      readonly kind: 'retry';
      readonly runAt: number;
      /** False: the job was given back, and keeps all its tries. */
      readonly isTry: boolean;
      /** The next time of a repeating job, for which earlier tries do not count; null or absent: it is the same time. */
      readonly next?: PlannedTime | null;
    }
  | {
      readonly kind: 'requeue';
      /** Whether the last claim does not count as a try. */
      readonly forgetTry: boolean;
    }
  | {
      readonly kind: 'fail' | 'cancel';
      /** True: only its last try has failed, crashed or was stopped; nobody has decided about the job itself. */
      readonly isSpent?: boolean;
    }
  | { readonly kind: 'finish' | 'bury' | 'kick' }
);

/** Converts a decision to the job's transition. */
export function toTransition(decision: RetryDecision): Transition {
  if (decision.state === 'retrying') return { kind: 'retry', runAt: decision.runAt, isTry: true };
  if (decision.state === 'finished') return { kind: 'finish', set: { result: null } };
  return { kind: decision.state === 'cancelled' ? 'cancel' : 'fail', isSpent: true };
}

/** A job and its transition. Most jobs have no children; the holder of a claim knows it, which saves looking for them. */
export interface JobMove {
  readonly job: JobHead & Partial<Pick<HeldRow, 'has_children'>>;
  readonly transition: Transition;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** The reason for the job's new state, in one sentence; null: none. */
  readonly reason: string | null;
  /** Whether a verb moves the job while its holder's process may still run. Default false. */
  readonly isByOthers?: boolean;
}

/** The conditions of a move that do not depend on the job. */
interface MoveFacts {
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** Whether a run's row records the end; otherwise an event does. */
  readonly isRun: boolean;
  /** Collects the changes of jobs for the caller to write; null: they are written at once. */
  readonly changes: JobChange[] | null;
}

type Moving = JobMove & MoveFacts;

/** The columns of a job without a claim. */
export const unclaimed = { claim_token: null, lease_expires_at: null, lease_extended: 0 } as const;

/**
 * Moves a job to its next state, and the jobs of its family that depend on it. Call it in a transaction, with the row
 * read in that transaction.
 *
 * @returns the new state of the job
 */
export async function moveJob(session: StoreSession, move: JobMove, facts: MoveFacts): Promise<JobState> {
  const moving = { ...move, ...facts };
  const { kind } = move.transition;
  if (kind === 'finish') return await finish(session, moving);
  if (kind === 'retry') return await retry(session, moving, move.transition);
  if (kind === 'kick' || kind === 'requeue') return await revive(session, moving, move.transition);
  const isSpent = (kind === 'fail' || kind === 'cancel') && move.transition.isSpent === true;
  // Only a rule in plain words gives a job its time whatever its outcome; Bedrock's rules apply after a finish.
  const repeats = isSpent && isRepeating(move.job) && isPlainRule(move.job.repeat as string);
  const planned = repeats ? await planRepeat(move.job, move.at, facts.missedCap) : null;
  if (planned === null || 'problem' in planned) return await giveUp(session, moving, kind);
  // The try has failed for good, or was stopped; the job goes on at its next time.
  await change(session, moving, toNext(planned));
  await cancelChildren(session, move.job.id, move.at);
  await session.jobs.markReported(move.job.id);
  return kind === 'cancel' ? 'cancelled' : 'failed';
}

/** For a short run, `attempts` and `started_at` are written to the row only now. */
async function change(session: StoreSession, moving: Moving, columns: Columns & { readonly state: JobState }) {
  const { job, at, reason, transition, changes, isByOthers = false } = moving;
  const { id, attempts, started_at, claim_token } = job;
  // A worker of the runner still has to end the process of a job that others have moved. Until then its claim counts:
  // nobody else begins the job, its group has one place less, and no other job with its unique key begins.
  const isKept = isByOthers && claim_token !== null && workerOf(claim_token) !== null;
  const claim = isKept ? { ...unclaimed, claim_token } : unclaimed;
  const made = { id, set: { ...claim, attempts, started_at, reason, ...transition.set, ...columns } };
  if (changes === null) await session.jobs.change([made], at);
  else changes.push({ ...made, isChildless: true });
  return columns.state;
}

async function finish(session: StoreSession, moving: Moving): Promise<JobState> {
  const { job, at, missedCap } = moving;
  if (job.tier === null && job.has_children !== false) {
    const isWaiting = await session.jobs.hasOpenChildren(job.id);
    await session.jobs.markReported(job.id);
    if (isWaiting) {
      await change(session, moving, { state: 'paused' });
      await releaseChildren(session, job.id, at);
      return 'paused';
    }
  }
  const planned = isRepeating(job) ? await planRepeat(job, at, missedCap) : null;
  if (planned === null) {
    await change(session, moving, { state: 'finished', finished_at: at });
    await resumeParentIfDone(session, job.parent_id, at);
    return 'finished';
  }
  if (!('problem' in planned)) return await change(session, moving, toNext(planned));
  // Only plain SQL can have written this rule.
  const reason = `its rule ${JSON.stringify(job.repeat)} gives no next time: ${planned.problem}`;
  await (await import('./incidents.ts')).noteUnbegun(session, job, reason, at);
  return await change(session, { ...moving, reason }, { state: 'failed', finished_at: at });
}

/** A child with a rule, which only plain SQL can give it, would keep its parent waiting for ever. */
function isRepeating({ repeat, parent_id }: JobHead): boolean {
  return repeat !== null && parent_id === null;
}

function toNext({ runAt, scheduledFor }: PlannedTime) {
  return { state: 'queued', run_at: runAt, scheduled_for: scheduledFor, attempts: 0 } as const;
}

/** Null: its rule gives no further time. */
export async function planRepeat(job: JobHead, at: number, cap: number) {
  const { parseRepeat } = await import('../../schedule/repeat/grammar/parse.ts');
  const parsed = parseRepeat(job.repeat as string);
  if ('problem' in parsed) return parsed;
  return await planNext(parsed.rule, momentsOf(job, at), { missed: job.missed_policy, nowMs: at, cap });
}

/** The moments from which a rule counts the job's next time. */
export function momentsOf({ scheduled_for, run_at, started_at }: JobHead, at: number) {
  return { scheduled: scheduled_for ?? run_at, started: started_at, finished: at };
}

async function retry(
  session: StoreSession,
  moving: Moving,
  { runAt, isTry, next = null }: Extract<Transition, { kind: 'retry' }>,
): Promise<JobState> {
  const { job } = moving;
  const state = job.parent_id === null ? 'retrying' : await stateOfRetriedChild(session, job.parent_id);
  if (state === 'cancelled') {
    const reason = `its parent, job ${job.parent_id}, has ended`;
    return await giveUp(session, { ...moving, transition: { kind: 'cancel' }, reason }, 'cancel');
  }
  const attempts = isTry ? job.attempts : Math.max(job.attempts - 1, 0);
  await change(session, moving, next === null ? { state, run_at: runAt, attempts } : toNext(next));
  return 'retrying';
}

/** The job begins anew, from any state. */
async function revive(session: StoreSession, moving: Moving, transition: Transition): Promise<JobState> {
  const { job, at } = moving;
  const state = await stateOfRevived(session, job);
  const unfinished = { state, finished_at: null, result: null, reason: null, reported_to_parent: 0 };
  if (transition.kind === 'requeue') {
    const attempts = Math.max(job.attempts - (transition.forgetTry ? 1 : 0), 0);
    await change(session, moving, { ...unfinished, run_at: job.created_at, attempts });
  } else await change(session, moving, { ...unfinished, run_at: at, attempts: 0 });
  const event = transition.kind === 'requeue' ? 'job-requeued' : 'job-kicked';
  await session.events.record([{ at, event, jobId: job.id }]);
  return 'queued';
}

const eventsOfEnds = {
  fail: 'job-failed',
  bury: 'job-buried',
  cancel: 'job-cancelled',
} as const satisfies Record<string, StoredEvent>;

async function giveUp(session: StoreSession, moving: Moving, kind: keyof typeof eventsOfEnds): Promise<JobState> {
  const { job, at, reason, isRun } = moving;
  const state = kind === 'cancel' ? 'cancelled' : 'failed';
  await change(session, moving, { state, finished_at: at });
  // A burial is more than the failure of a run, so it has its own event.
  if (!isRun || kind === 'bury') {
    await session.events.record([{ at, event: eventsOfEnds[kind], jobId: job.id, detail: reason }]);
  }
  if (job.tier === null && job.has_children !== false) await cancelChildren(session, job.id, at);
  await resumeParentIfDone(session, job.parent_id, at);
  return state;
}
