import { sql } from 'kysely';
import type { Script } from '../../discovery/script.ts';
import { recordActivity } from '../../store/events.ts';
import type { JobState } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import { toPolicyColumns } from '../settle/retry-policy.ts';

/** A job that is ready to be claimed. */
export interface QueuedJob {
  readonly id: number;
  readonly script: Script;
  readonly scheduledFor: number | null;
}

interface Enqueueing {
  readonly workerId: number;
  readonly scheduledFor: number | null;
  readonly at: number;
}

/**
 * One job for each script of a pass, all in one transaction, in the order given. No script may have
 * an open job: a script is never twice under way.
 */
export function enqueueScripts(
  db: Database,
  scripts: readonly Script[],
  { workerId, scheduledFor, at }: Enqueueing,
): Promise<QueuedJob[]> {
  if (scripts.length === 0) return Promise.resolve([]);
  return db.transaction().execute(async (transaction) => {
    const rows = await transaction
      .insertInto('jobs')
      .values(scripts.map((script) => toRow(script, scheduledFor, at)))
      .returning('id')
      .execute();
    // SQLite hands out ids in the order of the values, but promises no order of RETURNING's rows.
    const ids = rows.map((row) => row.id).sort((one, other) => one - other);
    await recordActivity(
      transaction,
      ids.map((jobId) => ({ at, event: 'job-queued' as const, workerId, jobId })),
    );
    return scripts.map((script, index) => ({ id: ids[index] as number, script, scheduledFor }));
  });
}

function toRow(script: Script, scheduledFor: number | null, at: number) {
  return {
    name: script.name,
    tier: script.tier,
    state: 'queued' as const,
    scheduled_for: scheduledFor,
    run_at: at,
    created_at: at,
    ...toPolicyColumns(script),
  };
}

/** A script's job that has not ended. */
export interface OpenJob {
  readonly id: number;
  readonly name: string;
  readonly tier: string;
  readonly state: JobState;
  readonly scheduledFor: number | null;
  readonly runAt: number;
  /** No next try waits longer than this. */
  readonly longestDelayMs: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly createdAt: number;
  readonly reason: string | null;
}

/** A tier's open jobs, or all tiers', those first that are to be run first: few, mostly none. */
export async function selectOpenJobs(db: Database, tier?: string): Promise<OpenJob[]> {
  const query = db
    .selectFrom('jobs')
    .select(['id', 'name', 'tier', 'state', 'scheduled_for as scheduledFor', 'run_at as runAt'])
    .select(['attempts', 'max_attempts as maxAttempts', 'created_at as createdAt', 'reason'])
    .select(sql<number>`max(retry_delay_ms, retry_longest_ms)`.as('longestDelayMs'))
    .where('finished_at', 'is', null)
    .where('tier', 'is not', null)
    .$narrowType<{ tier: string; maxAttempts: number }>()
    .orderBy(sql`state = 'retrying'`)
    .orderBy('run_at')
    .orderBy('id');
  return await (tier === undefined ? query : query.where('tier', '=', tier)).execute();
}

/** Clocks of two hosts, or of one before and after it is corrected, are that far apart at most. */
const CORRECTION_MS = 60_000;

/**
 * Waits for nothing but to be run: queued, or its next try is due. One that is further ahead than any
 * delay was set while the clock was ahead.
 */
export function isDue(
  { state, runAt, longestDelayMs }: Pick<OpenJob, 'state' | 'runAt' | 'longestDelayMs'>,
  at: number,
): boolean {
  if (state === 'queued') return true;
  return state === 'retrying' && (runAt <= at || runAt - at > longestDelayMs + CORRECTION_MS);
}

interface Cancellation {
  /** Null: no worker of theirs, as their tier is gone. */
  readonly workerId: number | null;
  readonly at: number;
  readonly reason: string;
}

/** Cancels those of the jobs that wait to be run, and says how many these were. */
export async function cancelJobs(
  db: Database,
  ids: readonly number[],
  { workerId, at, reason }: Cancellation,
): Promise<number> {
  if (ids.length === 0) return 0;
  return db.transaction().execute(async (transaction) => {
    const cancelled = await transaction
      .updateTable('jobs')
      .set({ state: 'cancelled', finished_at: at, reason })
      .where('id', 'in', ids)
      .where('state', 'in', ['queued', 'retrying'])
      .returning('id')
      .execute();
    for (const { id } of cancelled) {
      const event = 'job-cancelled';
      await recordActivity(transaction, { at, event, workerId, jobId: id, detail: reason });
    }
    return cancelled.length;
  });
}

interface Deferral {
  readonly workerId: number;
  readonly at: number;
  /** Why they were not started: "the load average is 7.2 (maxLoad 4)". */
  readonly reason: string;
}

/** Leaves jobs open for the next pass of any tier, and says why. */
export async function deferJobs(
  db: Database,
  ids: readonly number[],
  { workerId, at, reason }: Deferral,
): Promise<void> {
  if (ids.length === 0) return;
  await db.transaction().execute(async (transaction) => {
    await transaction.updateTable('jobs').set({ reason }).where('id', 'in', ids).execute();
    await recordActivity(
      transaction,
      ids.map((jobId) => ({
        at,
        event: 'job-deferred' as const,
        workerId,
        jobId,
        detail: reason,
      })),
    );
  });
}
