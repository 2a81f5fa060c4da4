import type { Job } from '../../../queue/api.ts';
import { listJobs } from '../../../queue/read/list.ts';
import type { Moments } from '../../../schedule/repeat/rule.ts';
import { type PlannedTime, planNext } from '../../../schedule/repeat/series.ts';
import { defaultSettings } from '../../../settings/settings.ts';
import { comingJobsOf, type RepeatingJobRow } from '../../../store/statements/coming-jobs.ts';
import type { StoreSession } from '../../../store/store.ts';
import { jobStates } from '../../../store/words.ts';
import { record, shown } from '../../../system/base/record.ts';

/** A time at which a job is to run: `runner jobs --upcoming 10 --json`. */
export const upcomingJobRecord = record('UpcomingJob', {
  at: shown.instant,
  /** Its rule gives that time if each run before it begins when it is due, and takes no time. */
  isExpected: shown.flag,
  id: shown.integer,
  name: shown.text.like('mail/welcome'),
  state: shown.words(jobStates, 'JobState'),
  repeat: shown.text.like('daily at 10:00').orNull,
});

export interface UpcomingJob extends Job {
  readonly atMs: number;
  readonly isExpected: boolean;
}

interface UpcomingQuery {
  readonly pattern: string;
  readonly limit: number;
  readonly nowMs: number;
}

/** The queue hands out no more at once. */
const PAGE = 1000;

/** The next times of jobs that wait, and the further ones of those that repeat, in the order of time. */
export async function readUpcoming(store: StoreSession, query: UpcomingQuery): Promise<UpcomingJob[]> {
  const { nowMs } = query;
  const candidates = (await selectNext(store, query)).map(toUpcoming);
  for (const job of await selectRunningRepeaters(store, query)) candidates.push(...(await followRunning(job, nowMs)));
  return await takeInOrder(candidates, query);
}

/** The next times of one job that has not ended. */
export async function readTimesOfJob(job: Job, query: Omit<UpcomingQuery, 'pattern'>): Promise<UpcomingJob[]> {
  if (job.finishedAt !== null) return [];
  const isRunning = job.state === 'running';
  return await takeInOrder(isRunning ? await followRunning(job, query.nowMs) : [toUpcoming(job)], query);
}

async function followRunning(job: Job, nowMs: number): Promise<UpcomingCandidate[]> {
  const startedMs = job.startedAt?.getTime() ?? nowMs;
  return await followJob({ ...toUpcoming(job), atMs: startedMs }, nowMs);
}

async function takeInOrder(
  candidates: UpcomingCandidate[],
  { limit, nowMs }: Omit<UpcomingQuery, 'pattern'>,
): Promise<UpcomingJob[]> {
  const upcoming: UpcomingJob[] = [];
  while (upcoming.length < limit) {
    const next = takeEarliest(candidates);
    if (next === null) break;
    upcoming.push(next);
    // An overdue job runs now, not at its past time.
    const atMs = Math.max(next.atMs, nowMs);
    candidates.push(...(await followJob({ ...next, atMs }, atMs)));
  }
  return upcoming;
}

/** The part of a job from which its next time follows. */
interface Repeating extends Pick<Job, 'repeat' | 'missed'> {
  readonly atMs: number;
  /** The time that the rule gave for it, from which the next one may be counted. */
  readonly scheduledMs: number;
}

interface UpcomingCandidate extends UpcomingJob, Repeating {}

function toUpcoming(job: Job): UpcomingCandidate {
  const atMs = job.runAt.getTime();
  return { ...job, atMs, scheduledMs: job.scheduledFor?.getTime() ?? atMs, isExpected: false };
}

function takeEarliest(candidates: UpcomingCandidate[]): UpcomingCandidate | null {
  const [first] = candidates.toSorted((one, other) => one.atMs - other.atMs || one.id - other.id);
  if (first === undefined) return null;
  candidates.splice(candidates.indexOf(first), 1);
  return first;
}

/** None of a job that does not repeat, and of a rule that gives no further time. */
async function followJob(job: UpcomingCandidate, finished: number): Promise<UpcomingCandidate[]> {
  const next = await nextTimeOf(job, finished);
  return next === null ? [] : [{ ...job, atMs: next.runAt, scheduledMs: next.scheduledFor, isExpected: true }];
}

/** The soonest jobs, up to the limit: all other jobs and repetitions come later. */
async function selectNext(store: StoreSession, { pattern, limit, nowMs: at }: UpcomingQuery): Promise<Job[]> {
  return await listJobs(store, { pattern, order: 'soonest', limit }, at);
}

async function selectRunningRepeaters(store: StoreSession, { pattern, nowMs: at }: UpcomingQuery): Promise<Job[]> {
  const running = await listJobs(store, { pattern, state: 'running', limit: PAGE }, at);
  return running.filter(({ repeat }) => repeat !== null);
}

/**
 * When, and for which time, a repeating job is to run after a run that ends then; null: it does not repeat, or its rule
 * gives no further time.
 */
async function nextTimeOf(
  { repeat, missed, scheduledMs: scheduled, atMs: started }: Repeating,
  finished: number,
): Promise<PlannedTime | null> {
  if (repeat === null) return null;
  const { parseRepeat } = await import('../../../schedule/repeat/grammar/parse.ts');
  const parsed = parseRepeat(repeat);
  if ('problem' in parsed) return null;
  const { missedCap: cap } = defaultSettings.queue;
  const moments: Moments = { scheduled, started, finished };
  return await planNext(parsed.rule, moments, { missed, nowMs: finished, cap });
}

/** Jobs of one name that wait for about the same time. */
export interface ComingJobs {
  /** Without parameters. */
  readonly name: string;
  readonly atMs: number;
  readonly lastMs: number;
  readonly count: number;
  /** The job, if it is one; null: they are several. */
  readonly id: number | null;
  readonly isRetried: boolean;
  /** The rule by which it repeats; null: by none. */
  readonly repeat: string | null;
}

export interface ComingQuery {
  readonly nowMs: number;
  readonly untilMs: number;
  /** Jobs of a name within one such time are one entry. */
  readonly stepMs: number;
}

interface Coming {
  readonly jobs: readonly ComingJobs[];
  /** All that comes before that is among them. */
  readonly completeMs: number;
}

/** More than anybody looks at. */
const MOST_GROUPS = 20_000;
const MOST_REPEATERS = 1_000;

/** Most times that are computed, of one job and of all together: a job that repeats each minute of a day has 1,440. */
const MOST_TIMES = 1_500;
const MOST_TIMES_OF_ALL = 15_000;

/** The jobs of the queue that come up to a time, due ones first. */
export async function readComingJobs(store: StoreSession, query: ComingQuery): Promise<Coming> {
  const { nowMs, untilMs, stepMs } = query;
  const waiting = comingJobsOf(store.statements);
  const rows = await waiting.coming({ at: nowMs, until: untilMs, step: stepMs, limit: MOST_GROUPS });
  const repeaters = rows.filter(({ repeats }) => repeats === 1).map(({ id }) => id);
  const single = rows
    .filter(({ repeats }) => repeats === 0)
    .map(({ handler: name, state, jobs: count, first: atMs, last: lastMs, id }): ComingJobs => {
      return { name, atMs, lastMs, count, id: count === 1 ? id : null, isRetried: state === 'retrying', repeat: null };
    });
  const isCut = rows.length === MOST_GROUPS;
  const repeating = await readRepeating(await waiting.repeating(repeaters, untilMs, MOST_REPEATERS), query);
  const completeMs = Math.min(repeating.completeMs, isCut ? (rows.at(-1)?.first ?? untilMs) : untilMs);
  return { jobs: [...single, ...repeating.jobs], completeMs };
}

async function readRepeating(rows: readonly RepeatingJobRow[], query: ComingQuery): Promise<Coming> {
  const jobs: ComingJobs[] = [];
  const most = Math.min(MOST_TIMES, Math.floor(MOST_TIMES_OF_ALL / rows.length));
  let completeMs = rows.length === MOST_REPEATERS ? (rows.at(-1)?.run_at ?? query.untilMs) : query.untilMs;
  for (const row of rows) {
    const times = await listTimes(row, query, most);
    if (times.length === most) completeMs = Math.min(completeMs, times.at(-1) as number);
    const steps = Map.groupBy(times, (atMs) => Math.floor(atMs / query.stepMs));
    for (const ofStep of steps.values()) {
      const [atMs, lastMs] = [ofStep[0] as number, ofStep.at(-1) as number];
      const isRetried = row.state === 'retrying' && atMs === row.run_at;
      jobs.push({
        ...{ name: row.handler, atMs, lastMs, count: ofStep.length, id: row.id, isRetried },
        repeat: row.repeat,
      });
    }
  }
  return { jobs, completeMs };
}

async function listTimes(row: RepeatingJobRow, { nowMs, untilMs }: ComingQuery, most: number): Promise<number[]> {
  const { repeat, missed_policy: missed, state, run_at, scheduled_for: scheduledMs, started_at } = row;
  const isRunning = state === 'running' || state === 'claimed';
  const times = isRunning ? [] : [run_at];
  const startMs = isRunning ? (started_at ?? nowMs) : Math.max(run_at, nowMs);
  let job: Repeating = { repeat, missed, atMs: startMs, scheduledMs: scheduledMs ?? run_at };
  while (times.length < most) {
    const next = await nextTimeOf(job, Math.max(job.atMs, nowMs));
    if (next === null || next.runAt > untilMs) break;
    times.push(next.runAt);
    job = { ...job, atMs: Math.max(next.runAt, nowMs), scheduledMs: next.scheduledFor };
  }
  return times;
}
