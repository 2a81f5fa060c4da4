import type { LogView, Site } from '../../discovery/site.ts';
import type { Job, ListedJob } from '../../queue/api.ts';
import { noSuchJob } from '../../queue/errors.ts';
import { readJob } from '../../queue/read/jobs.ts';
import { type ListPageOptions, listJobs } from '../../queue/read/list.ts';
import type { Moments } from '../../schedule/repeat/rule.ts';
import { type PlannedTime, planNext } from '../../schedule/repeat/series.ts';
import { defaultSettings } from '../../settings/settings.ts';
import { type JobHead, MOST_LISTED_BYTES } from '../../store/shared/job-columns.ts';
import type { ClaimOfWorker } from '../../store/statements/claims.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { StoreSession } from '../../store/store.ts';
import { jobStates, missedPolicies } from '../../store/words.ts';
import { parseExactly } from '../../system/base/exact-json.ts';
import { field, quoting, record, shown, type Values } from '../../system/base/record.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { findHold } from '../text/words.ts';
import { type JobActivity, jobActivityRecord, selectActivity } from './activity.ts';
import { pauseRecord } from './pauses.ts';
import { type RunRecord, runRecord, selectRecords } from './runs/run.ts';

const jobStateField = shown.words(jobStates, 'JobState');
const countersRecord = record(null, {
  reserves: shown.integer,
  timeouts: shown.integer,
  releases: shown.integer,
  buries: shown.integer,
  kicks: shown.integer,
  crashes: shown.integer,
});

/** One job of the queue, as docs/json.md describes it. */
export const jobRecord = record('Job', {
  id: shown.integer,
  name: shown.text,
  state: jobStateField,
  data: field.json.about('JSON, as it was given'),
  result: field.json.about('JSON; null: none'),
  priority: shown.integer,
  runAt: shown.date,
  scheduledFor: shown.date.orNull,
  createdAt: shown.date,
  startedAt: shown.date.orNull,
  finishedAt: shown.date.orNull,
  attempts: shown.integer,
  maxAttempts: shown.integer.orNull,
  repeat: shown.text.orNull,
  missed: shown.words(missedPolicies),
  uniqueKey: field.text.orNull,
  group: field.text.orNull,
  parent: shown.integer.orNull,
  leaseMs: shown.number.orNull,
  leasedUntil: shown.date.orNull,
  reason: quoting.orNull,
  counters: shown.one(countersRecord),
});

/** With what keeps it from being run. */
export const heldJobRecord = record('HeldJob', { ...jobRecord.fields, pause: shown.one(pauseRecord).orNull });

/** As a list has it. */
export const listedJobRecord = record('ListedJob', {
  ...heldJobRecord.fields,
  data: field.json.about(`JSON; null, too, where it is longer than ${MOST_LISTED_BYTES} bytes`),
  result: field.json.about('The same. Null: none, or left out'),
  dataBytes: field.integer.orNull.about(
    'Length of the data in bytes, where it was left out: `GET /api/jobs/{id}` has it. Null: data is whole',
  ),
  resultBytes: field.integer.orNull.about('The same of the result'),
});

const endedChildren = field.list(
  field.one(record(null, { id: field.integer, name: field.text, data: field.json, result: field.json })),
);

/** The data that the worker of a job needs. */
export const claimedJobRecord = record('ClaimedJob', {
  ...jobRecord.fields,
  token: field.text.about('Needed to end the job'),
  attempt: field.integer,
  parentData: field.json,
  children: field.one(record(null, { finished: endedChildren, failed: endedChildren, cancelled: endedChildren })),
});

/** The number of jobs of a name in each state: `runner jobs --count --json`. */
export const jobCountRecord = record(null, {
  name: shown.text,
  ready: shown.integer,
  delayed: shown.integer,
  running: shown.integer,
  retrying: shown.integer,
  paused: shown.integer,
  failed: shown.integer,
  finished: shown.integer,
  cancelled: shown.integer,
});

/** Counts of what has happened to jobs of a name: `runner jobs --totals --json`. */
export const jobTotalsRecord = record('JobTotals', {
  name: shown.text,
  added: shown.integer,
  runs: shown.integer,
  succeeded: shown.integer,
  failed: shown.integer,
  timedOut: shown.integer,
  crashed: shown.integer,
  released: shown.integer,
  leasesExpired: shown.integer,
  buried: shown.integer,
  kicked: shown.integer,
});

/** What a change of many jobs would do: `runner kick --dry-run --json`. */
export const changePlanRecord = record('ChangePlan', {
  jobs: shown.integer.about('How many jobs the verb takes'),
  refused: shown.integer.about('How many of the chosen jobs it would refuse'),
  last: shown.integer.orNull.about('The highest number among the chosen jobs; null: there is none'),
  causes: shown
    .list(field.one(record(null, { reason: quoting.orNull, jobs: shown.integer })))
    .about('Why the jobs are in their state, as one of them tells it; the 20 most frequent causes'),
});

/** Jobs of the queue, in the order asked for. */
export interface JobList {
  readonly jobs: readonly ListedJob[];
  /** There are more, which the limit left out. */
  readonly isCut: boolean;
  /** In force, whatever they are of. */
  readonly pauses: readonly Pause[];
}

/** The list if nothing was ever added. */
export const noJobs: JobList = { jobs: [], isCut: false, pauses: [] };

/** The queue hands out no more at once. */
const PAGE = 1000;

export async function readJobs(
  store: StoreSession,
  { limit, order = 'newest', offset = 0, ...options }: ListPageOptions & { readonly limit: number },
  nowMs: number,
): Promise<JobList> {
  const lost = await findLostClaims(store, nowMs);
  const jobs: ListedJob[] = [];
  let isLast = false;
  // One more than asked for tells whether there are more.
  while (jobs.length <= limit) {
    const size = Math.min(PAGE, limit + 1 - jobs.length);
    const last = jobs.at(-1);
    const further = last === undefined ? {} : { [order === 'oldest' ? 'after' : 'before']: last.id };
    const query = { ...options, ...further, order, limit: size, ...(last === undefined && offset > 0 && { offset }) };
    const page = await listJobs(store, query, nowMs, parseExactly);
    jobs.push(...page);
    isLast = page.length < size;
    // Only by their numbers there is a way on from the last one.
    if (isLast || (order !== 'newest' && order !== 'oldest')) break;
  }
  const shown = jobs.slice(0, limit).map((job) => asFound(job, lost));
  const pauses = await store.pauses.inForce(nowMs);
  return { jobs: shown, isCut: jobs.length > limit || !isLast, pauses };
}

/** Why the claims of jobs hold no more, though nobody has recorded that yet; by their numbers. */
type LostClaims = ReadonlyMap<number, string>;

/** Finds the claims of the queue that the next worker will find lost. */
export async function findLostClaims(store: StoreSession, nowMs: number): Promise<LostClaims> {
  const claims = await store.claims.ofWorkers();
  // A job that others have moved on is lost to nobody.
  const isHeld = ({ tier, state }: JobHead): boolean => tier === null && (state === 'claimed' || state === 'running');
  const dead = claims.filter(({ job, worker }) => isHeld(job) && isDead(worker));
  const expired = await store.claims.expired(nowMs, 0);
  return new Map([
    ...expired.map(({ job }) => [job.id, 'its claim has expired'] as const),
    ...dead.map((claim) => [claim.job.id, describeDead(claim)] as const),
  ]);
}

function isDead({ state, host, boot_id: bootId, pid, pid_start_ticks: startTicks }: Process) {
  return state !== 'running' || checkLiveness({ host, bootId, pid, startTicks }) === 'dead';
}

type Process = ClaimOfWorker['worker'];

function describeDead({ worker: { pid, host } }: ClaimOfWorker): string {
  return `its worker (pid ${pid} on ${host}) died`;
}

export function asFound<J extends Job>(job: J, lost: LostClaims): J {
  const reason = lost.get(job.id);
  return reason === undefined ? job : { ...job, reason };
}

/** A time at which a job is to run: `runner jobs --upcoming 10 --json`. */
export const upcomingJobRecord = record('UpcomingJob', {
  at: shown.instant,
  /** Its rule gives that time if each run before it begins when it is due, and takes no time. */
  isExpected: shown.flag,
  id: shown.integer,
  name: shown.text,
  state: jobStateField,
  repeat: shown.text.orNull,
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

/** The next times of jobs that wait, and the further ones of those that repeat, in the order of time. */
export async function readUpcoming(store: StoreSession, query: UpcomingQuery): Promise<UpcomingJob[]> {
  const { nowMs } = query;
  const candidates = (await selectNext(store, query)).map(toUpcoming);
  for (const job of await selectRunningRepeaters(store, query)) {
    const startedMs = job.startedAt?.getTime() ?? nowMs;
    candidates.push(...(await followingRun({ ...toUpcoming(job), atMs: startedMs }, nowMs)));
  }
  const upcoming: UpcomingJob[] = [];
  while (upcoming.length < query.limit) {
    const next = takeEarliest(candidates);
    if (next === null) break;
    upcoming.push(next);
    // An overdue job runs now, not at its past time.
    const atMs = Math.max(next.atMs, nowMs);
    candidates.push(...(await followingRun({ ...next, atMs }, atMs)));
  }
  return upcoming;
}

/** With the time that the rule gave for it, from which the next one may be counted. */
interface Candidate extends UpcomingJob {
  readonly scheduledMs: number;
}

function toUpcoming(job: Job): Candidate {
  const atMs = job.runAt.getTime();
  return { ...job, atMs, scheduledMs: job.scheduledFor?.getTime() ?? atMs, isExpected: false };
}

function takeEarliest(candidates: Candidate[]): Candidate | null {
  const [first] = candidates.toSorted((one, other) => one.atMs - other.atMs || one.id - other.id);
  if (first === undefined) return null;
  candidates.splice(candidates.indexOf(first), 1);
  return first;
}

/** None of a job that does not repeat, and of a rule that gives no further time. */
async function followingRun(job: Candidate, finished: number): Promise<Candidate[]> {
  const next = await nextTimeOf(job, { scheduled: job.scheduledMs, started: job.atMs, finished });
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
 * When, and for which time, a repeating job is to run after a run with these moments; null: it does not
 * repeat, or its rule gives no further time.
 */
async function nextTimeOf(
  { repeat, missed }: Job,
  moments: Moments & { readonly finished: number },
): Promise<PlannedTime | null> {
  if (repeat === null) return null;
  const { parseRepeat } = await import('../../schedule/repeat/parse.ts');
  const parsed = parseRepeat(repeat);
  if ('problem' in parsed) return null;
  const { missedCap: cap } = defaultSettings.queue;
  return await planNext(parsed.rule, moments, { missed, nowMs: moments.finished, cap });
}

const childRecord = record(null, { id: shown.integer, name: shown.text, state: jobStateField });

export type JobChild = Values<typeof childRecord>;

export async function selectChildren({ db }: LogView, jobId: number, limit: number): Promise<JobChild[]> {
  return await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state'])
    .where('parent_id', '=', jobId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** A job's newest runs, newest first. */
export async function selectRunsOfJob(log: LogView, jobId: number, limit: number): Promise<RunRecord[]> {
  return await selectRecords(log, (runs) =>
    runs.where('runs.job_id', '=', jobId).orderBy('runs.id', 'desc').limit(limit),
  );
}

/** A job and what became of it: `runner job <id> --json`. */
export const jobStoryRecord = record('JobStory', {
  ...heldJobRecord.fields,
  children: shown.list(field.one(childRecord)),
  /** Newest first. */
  runs: shown.list(field.one(runRecord)),
  /** Oldest first. */
  activity: shown.list(field.one(jobActivityRecord)),
});

/** The history of a job that its row does not hold. */
export interface JobStory {
  readonly job: Job;
  /** The pause that keeps it from running; null: none does. */
  readonly pause: Pause | null;
  readonly children: readonly JobChild[];
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** Oldest first. */
  readonly activity: readonly JobActivity[];
}

/** A family or a history longer than that nobody reads on a page. */
const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 200;

/**
 * Everything about one job of the queue.
 *
 * @param readOne reads the job: default with all that it carries
 * @throws {QueueError} `no-such-job` where there is none
 */
export async function readStory(
  { store, nowMs, ...site }: Pick<Site, 'store' | 'pauses' | 'view' | 'nowMs'>,
  id: number,
  readOne: typeof readJob = readJob,
): Promise<JobStory> {
  const job = store === null ? null : await readOne(store, id, parseExactly);
  if (store === null || job === null) throw noSuchJob(id);
  const view = await site.view();
  return {
    job: asFound(job, await findLostClaims(store, nowMs)),
    pause: findHold(await site.pauses(), job),
    children: await selectChildren(view, id, MOST_CHILDREN),
    runs: await selectRunsOfJob(view, id, MOST_RUNS),
    activity: (await selectActivity(view, { jobId: id, order: 'newest', limit: MOST_ACTIVITY })).toReversed(),
  };
}
