import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
import type { JobState } from '../store/schema.ts';

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
