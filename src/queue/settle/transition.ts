import { isPlainRule, parseRepeat } from '../../repeat/parse.ts';
import { type PlannedTime, planNext } from '../../repeat/plan.ts';
import { recordActivity } from '../../store/events.ts';
import type { ActivityEvent, JobRow } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import { type Archive, removeUnkept } from './archive.ts';
import {
  cancelChildren,
  hasPendingChildren,
  markChildrenTold,
  releaseChildren,
  stateOfRetriedChild,
  tellParent,
} from './families.ts';

/** What becomes of a job whose claim, or whose wait, ends. */
export type Ending =
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

export interface EndingFacts {
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly workerId: number | null;
  readonly runId?: number;
  /** One sentence; null: there is nothing to be said. */
  readonly reason: string | null;
  /** How many missed times of a repeating job are made up for. */
  readonly missedCap: number;
  /** Counters that grow by one, besides those of the ending itself. */
  readonly counts?: 'crashes' | 'timeouts';
  /** What is kept of jobs that have ended; without it, all. */
  readonly archive?: Archive;
}

/** What a claim leaves behind when it is over. */
const unclaimed = { claim_token: null, leased_until: null } as const;

/**
 * Ends what a job of the queue is at, with all that follows for it and its family; the one place
 * where that is decided. To be called in a transaction, with the row as it is in that.
 */
export async function endJob(
  db: Database,
  job: JobRow,
  ending: Ending,
  facts: EndingFacts,
): Promise<void> {
  if (ending.kind === 'finish') await finish(db, job, ending, facts);
  else if (ending.kind === 'retry') await retry(db, job, ending, facts);
  else await giveUp(db, job, ending, facts);
}

async function finish(
  db: Database,
  job: JobRow,
  { result = null, data = job.data }: Extract<Ending, { kind: 'finish' }>,
  facts: EndingFacts,
): Promise<void> {
  const { at } = facts;
  const done = { ...unclaimed, ...counted(job, facts), result, data, reason: facts.reason };
  if (await hasPendingChildren(db, job.id)) {
    await markChildrenTold(db, job.id);
    await change(db, job, { ...done, state: 'paused' });
    await tell(db, job, 'job-paused', facts, 'it waits for its children');
    await releaseChildren(db, job.id, at);
    return;
  }
  await markChildrenTold(db, job.id);
  // A child with a rule, which only plain SQL could give it, would keep its parent waiting for ever.
  const isOver = job.repeat === null || job.parent_id !== null;
  if (isOver) await finishForGood(db, job, done, facts);
  else await repeat(db, job, done, facts);
}

async function finishForGood(
  db: Database,
  job: JobRow,
  done: Done,
  facts: EndingFacts,
): Promise<void> {
  await change(db, job, { ...done, state: 'finished', finished_at: facts.at });
  await tell(db, job, 'job-finished', facts);
  await tellParent(db, job.parent_id, facts.at);
  await removeUnkept(db, job, 'finished', facts.archive);
}

type Done = Partial<JobRow>;

async function repeat(db: Database, job: JobRow, done: Done, facts: EndingFacts): Promise<void> {
  const { at, missedCap: cap } = facts;
  const planned = await planRepeat(job, at, cap);
  if (planned === null) return await finishForGood(db, job, done, facts);
  if ('problem' in planned) {
    // Only plain SQL could put it there.
    const reason = `its rule ${JSON.stringify(job.repeat)} gives no next time: ${planned.problem}`;
    await change(db, job, { ...done, state: 'failed', finished_at: at, reason });
    await tell(db, job, 'job-failed', facts, reason);
    await removeUnkept(db, job, 'failed', facts.archive);
    return;
  }
  await change(db, job, { ...done, ...toNext(planned) });
  await tell(db, job, 'job-finished', facts);
  await tellRepeat(db, job, at, planned);
}

function toNext({ runAt, scheduledFor }: PlannedTime) {
  return { state: 'queued', run_at: runAt, scheduled_for: scheduledFor, attempts: 0 } as const;
}

async function tellRepeat(
  db: Database,
  { id: jobId }: JobRow,
  at: number,
  { skipped }: PlannedTime,
): Promise<void> {
  const detail = skipped === 0 ? 'it repeats' : `it repeats; ${skipped} missed times were skipped`;
  await recordActivity(db, { at, event: 'job-queued', jobId, detail });
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
  return await planNext(parsed.rule, moments, { missed: job.missed, nowMs: at, cap });
}

async function retry(
  db: Database,
  job: JobRow,
  ending: Extract<Ending, { kind: 'retry' }>,
  facts: EndingFacts,
): Promise<void> {
  const { runAt, isTry, priority, name, data } = ending;
  const state = job.parent_id === null ? 'retrying' : await stateOfRetriedChild(db, job.parent_id);
  if (state === 'cancelled') {
    const reason = `its parent, job ${job.parent_id}, has ended`;
    return await giveUp(db, job, { kind: 'cancel' }, { ...facts, reason });
  }
  await change(db, job, {
    ...unclaimed,
    ...counted(job, facts),
    state,
    run_at: runAt,
    claimed_by: null,
    reason: facts.reason,
    ...(isTry ? {} : { attempts: Math.max(job.attempts - 1, 0), releases: job.releases + 1 }),
    ...(priority !== undefined && { priority }),
    ...(name !== undefined && { name }),
    ...(data !== undefined && { data }),
  });
  await tell(db, job, isTry ? 'job-retrying' : 'job-released', facts);
}

async function giveUp(
  db: Database,
  job: JobRow,
  ending: Extract<Ending, { kind: 'fail' | 'bury' | 'cancel' }>,
  facts: EndingFacts,
): Promise<void> {
  if (ending.kind === 'fail' && ending.isSpent && repeatsAfterFailure(job)) {
    return await repeatFailed(db, job, ending, facts);
  }
  await endForGood(db, job, ending, facts);
}

/** Only a rule in plain words says when a job runs, whatever became of it; Bedrock's say what follows a finish. */
function repeatsAfterFailure({ repeat, parent_id }: JobRow): boolean {
  return repeat !== null && parent_id === null && isPlainRule(repeat);
}

async function repeatFailed(
  db: Database,
  job: JobRow,
  { data = job.data }: Extract<Ending, { kind: 'fail' }>,
  facts: EndingFacts,
): Promise<void> {
  const { at, missedCap: cap } = facts;
  const planned = await planRepeat(job, at, cap);
  if (planned === null || 'problem' in planned) {
    return await endForGood(db, job, { kind: 'fail', data }, facts);
  }
  await change(db, job, {
    ...unclaimed,
    ...counted(job, facts),
    ...toNext(planned),
    reason: facts.reason,
  });
  await tell(db, job, 'job-failed', facts);
  await cancelChildren(db, job.id, at);
  await markChildrenTold(db, job.id);
  await tellRepeat(db, job, at, planned);
}

async function endForGood(
  db: Database,
  job: JobRow,
  ending: Extract<Ending, { kind: 'fail' | 'bury' | 'cancel' }>,
  facts: EndingFacts,
): Promise<void> {
  const isBuried = ending.kind === 'bury';
  const state = ending.kind === 'cancel' ? 'cancelled' : 'failed';
  await change(db, job, {
    ...unclaimed,
    ...counted(job, facts),
    state,
    finished_at: facts.at,
    reason: facts.reason,
    ...(ending.kind === 'fail' && ending.data !== undefined && { data: ending.data }),
    ...(isBuried && { buries: job.buries + 1 }),
    ...(isBuried && ending.priority !== undefined && { priority: ending.priority }),
  });
  await tell(db, job, givenUp[ending.kind], facts);
  await cancelChildren(db, job.id, facts.at);
  await tellParent(db, job.parent_id, facts.at);
  await removeUnkept(db, job, state, facts.archive);
}

const givenUp = { fail: 'job-failed', bury: 'job-buried', cancel: 'job-cancelled' } as const;

function counted(job: JobRow, { counts }: EndingFacts): Partial<JobRow> {
  return counts === undefined ? {} : { [counts]: job[counts] + 1 };
}

async function change(db: Database, { id }: JobRow, columns: Partial<JobRow>): Promise<void> {
  await db.updateTable('jobs').set(columns).where('id', '=', id).execute();
}

async function tell(
  db: Database,
  { id }: JobRow,
  event: ActivityEvent,
  { at, workerId, runId, reason }: EndingFacts,
  detail = reason,
): Promise<void> {
  const run = runId === undefined ? {} : { runId };
  await recordActivity(db, { at, event, workerId, jobId: id, ...run, detail });
}
