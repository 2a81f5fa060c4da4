import type { Kysely } from 'kysely';
import type { ActivityEvent, ActivityLog, JobState } from '../store/schema.ts';
import { type RunRecord, runColumns, toRunRecord } from './run-record.ts';

export interface JobChild {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
}

/** One transition of a job. */
export interface JobActivity {
  readonly atMs: number;
  readonly event: ActivityEvent;
  readonly detail: string | null;
  readonly runId: number | null;
}

export async function selectChildren(
  db: Kysely<ActivityLog>,
  jobId: number,
  limit: number,
): Promise<JobChild[]> {
  return await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state'])
    .where('parent_id', '=', jobId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** A job's newest runs, newest first. */
export async function selectRunsOfJob(
  db: Kysely<ActivityLog>,
  jobId: number,
  limit: number,
): Promise<RunRecord[]> {
  const rows = await db
    .selectFrom('runs')
    .select(runColumns)
    .where('job_id', '=', jobId)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(toRunRecord);
}

/**
 * The newest of what happened to a job, oldest first. The activity has an index by time alone: it is
 * read from the job's end back to when it was added.
 */
export async function selectActivityOfJob(
  db: Kysely<ActivityLog>,
  job: { readonly id: number; readonly createdAt: Date },
  limit: number,
): Promise<JobActivity[]> {
  const createdMs = job.createdAt.getTime();
  const newest = await db
    .selectFrom('activity')
    .select(['at as atMs', 'event', 'detail', 'run_id as runId'])
    .where('at', '>=', Number.isNaN(createdMs) ? 0 : createdMs)
    .where('job_id', '=', job.id)
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
  return newest.toReversed();
}
