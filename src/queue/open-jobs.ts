import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
import type { JobState } from '../store/schema.ts';

/** How many jobs of a tier are open in one state, and when the first of them is due. */
export interface OpenJobs {
  readonly tier: string;
  readonly state: JobState;
  readonly count: number;
  readonly firstRunAt: number;
}

/** What is open in all tiers: nothing, mostly, and then one look at an index. */
export async function summarizeOpenJobs(db: Database): Promise<OpenJobs[]> {
  return await db
    .selectFrom('jobs')
    .select(({ fn }) => [
      'tier',
      'state',
      fn.countAll<number>().as('count'),
      fn.min('run_at').as('firstRunAt'),
    ])
    .where('finished_at', 'is', null)
    .where('tier', 'is not', null)
    .groupBy(['tier', 'state'])
    .$narrowType<{ tier: string }>()
    .execute();
}

/** A script's job that has not ended. */
export interface OpenJob {
  readonly id: number;
  readonly name: string;
  readonly tier: string;
  readonly state: JobState;
  readonly scheduledFor: number | null;
  readonly runAt: number;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly createdAt: number;
  readonly reason: string | null;
}

/** A tier's open jobs, or all tiers', those first that are to be run first. */
export async function selectOpenJobs(db: Database, tier?: string): Promise<OpenJob[]> {
  const query = db
    .selectFrom('jobs')
    .select(['id', 'name', 'tier', 'state', 'scheduled_for as scheduledFor', 'run_at as runAt'])
    .select(['attempts', 'max_attempts as maxAttempts', 'created_at as createdAt', 'reason'])
    .where('finished_at', 'is', null)
    .where('tier', 'is not', null)
    .$narrowType<{ tier: string }>()
    .orderBy(sql`state = 'retrying'`)
    .orderBy('run_at')
    .orderBy('id');
  return await (tier === undefined ? query : query.where('tier', '=', tier)).execute();
}

/** Waits for nothing but to be run: queued, or its next try is due. */
export function isDue({ state, runAt }: Pick<OpenJob, 'state' | 'runAt'>, at: number): boolean {
  return state === 'queued' || (state === 'retrying' && runAt <= at);
}
