import { sql } from 'kysely';
import { isWaitingJob } from '../queue/job-states.ts';
import { fitsPatterns, readPatterns } from '../queue/name-patterns.ts';
import type { Job } from '../queue/queue.ts';
import { toJob } from '../queue/read-job.ts';
import type { Database } from '../store/open-store.ts';
import { nextTimeOf } from './next-time-of.ts';

/** A time at which a job is to run. */
export interface UpcomingRun {
  readonly atMs: number;
  readonly job: Job;
  /** Its rule gives that time if each run before it begins when it is due, and takes no time. */
  readonly isExpected: boolean;
}

export interface UpcomingQuery {
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
