import { type Kysely, sql } from 'kysely';
import { parseExactly } from '../../base/values.ts';
import type { Job, ListOptions } from '../../queue/api.ts';
import { fitsPatterns, readPatterns } from '../../queue/patterns.ts';
import { type Pause, selectPauses } from '../../queue/pauses.ts';
import { toJob } from '../../queue/read/jobs.ts';
import { listJobs } from '../../queue/read/list.ts';
import { isWaitingJob } from '../../queue/read/states.ts';
import { parseRepeat } from '../../repeat/parse.ts';
import { type PlannedTime, planNext } from '../../repeat/plan.ts';
import type { Moments } from '../../repeat/rule.ts';
import { defaultSettings } from '../../settings/settings.ts';
import type { ActivityEvent, ActivityLog, JobState } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import { type RunRecord, runColumns, toRunRecord } from './run.ts';

/** Jobs of the queue, in the order asked for. */
export interface JobList {
  readonly jobs: readonly Job[];
  /** There are more, which the limit left out. */
  readonly isCut: boolean;
  /** In force, whatever they are of. */
  readonly pauses: readonly Pause[];
}

/** The queue hands out no more at once. */
const PAGE = 1000;

export async function readJobs(
  db: Database,
  { limit, order = 'newest', ...options }: Omit<ListOptions, 'before'> & { readonly limit: number },
  nowMs: number,
): Promise<JobList> {
  const jobs: Job[] = [];
  let isLast = false;
  // One more than asked for tells whether there are more.
  while (jobs.length <= limit) {
    const size = Math.min(PAGE, limit + 1 - jobs.length);
    const last = jobs.at(-1);
    const before = last === undefined ? {} : { before: last.id };
    const page = await listJobs(
      db,
      { ...options, ...before, order, limit: size },
      nowMs,
      parseExactly,
    );
    jobs.push(...page);
    isLast = page.length < size;
    // Only by their numbers there is a way on from the last one.
    if (isLast || order !== 'newest') break;
  }
  const pauses = await selectPauses(db, nowMs);
  return { jobs: jobs.slice(0, limit), isCut: jobs.length > limit || !isLast, pauses };
}

/** A time at which a job is to run. */
export interface UpcomingRun {
  readonly atMs: number;
  readonly job: Job;
  /** Its rule gives that time if each run before it begins when it is due, and takes no time. */
  readonly isExpected: boolean;
}

interface UpcomingQuery {
  readonly pattern: string;
  readonly limit: number;
  readonly nowMs: number;
}

/** The next times of jobs that wait, and the further ones of those that repeat, in the order of time. */
export async function readUpcoming(db: Database, query: UpcomingQuery): Promise<UpcomingRun[]> {
  const { nowMs } = query;
  const candidates = (await selectNext(db, query)).map(toUpcoming);
  for (const job of await selectRunningRepeaters(db, query)) {
    const startedMs = job.startedAt?.getTime() ?? nowMs;
    candidates.push(...(await followingRun({ ...toUpcoming(job), atMs: startedMs }, nowMs)));
  }
  const upcoming: UpcomingRun[] = [];
  while (upcoming.length < query.limit) {
    const next = takeEarliest(candidates);
    if (next === null) break;
    upcoming.push(next);
    // What is overdue runs now, and no sooner.
    const atMs = Math.max(next.atMs, nowMs);
    candidates.push(...(await followingRun({ ...next, atMs }, atMs)));
  }
  return upcoming;
}

/** With the time that the rule gave for it, from which the next one may be counted. */
interface Candidate extends UpcomingRun {
  readonly scheduledMs: number;
}

function toUpcoming(job: Job): Candidate {
  const atMs = job.runAt.getTime();
  return { atMs, scheduledMs: job.scheduledFor?.getTime() ?? atMs, job, isExpected: false };
}

function takeEarliest(candidates: Candidate[]): Candidate | null {
  const [first] = candidates.toSorted(
    (one, other) => one.atMs - other.atMs || one.job.id - other.job.id,
  );
  if (first === undefined) return null;
  candidates.splice(candidates.indexOf(first), 1);
  return first;
}

/** None of a job that does not repeat, and of a rule that gives no further time. */
async function followingRun(
  { atMs: started, scheduledMs: scheduled, job }: Candidate,
  finished: number,
): Promise<Candidate[]> {
  const next = await nextTimeOf(job, { scheduled, started, finished });
  if (next === null) return [];
  return [{ atMs: next.runAt, scheduledMs: next.scheduledFor, job, isExpected: true }];
}

/** Whatever is beyond these comes after them, repeated or not. */
async function selectNext(db: Database, { pattern, limit }: UpcomingQuery): Promise<Job[]> {
  const rows = await db
    .selectFrom('jobs')
    .selectAll()
    .where(isWaitingJob)
    .where(fitsPatterns(readPatterns(pattern)))
    .orderBy('run_at')
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map((row) => toJob(row));
}

async function selectRunningRepeaters(
  db: Database,
  { pattern, limit }: UpcomingQuery,
): Promise<Job[]> {
  const rows = await db
    .selectFrom('jobs')
    .selectAll()
    .where('leased_until', 'is not', null)
    .where('repeat', 'is not', null)
    .where(sql<boolean>`state = 'running' and tier is null`)
    .where(fitsPatterns(readPatterns(pattern)))
    .limit(limit)
    .execute();
  return rows.map((row) => toJob(row));
}

/**
 * When, and for which time, a repeating job is to run after a run with these moments; null: it does not
 * repeat, or its rule gives no further time.
 */
async function nextTimeOf(
  { repeat, missed }: Job,
  moments: Moments & { readonly finished: number },
): Promise<PlannedTime | null> {
  const parsed = repeat === null ? null : parseRepeat(repeat);
  if (parsed === null || 'problem' in parsed) return null;
  const { missedCap: cap } = defaultSettings.queue;
  return await planNext(parsed.rule, moments, { missed, nowMs: moments.finished, cap });
}

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
