import type { LogView, Site } from '../../discovery/site.ts';
import type { Job, ListedJob } from '../../queue/api.ts';
import { noSuchJob } from '../../queue/errors.ts';
import { readJob } from '../../queue/read/jobs.ts';
import { type ListPageOptions, listJobs } from '../../queue/read/list.ts';
import { type JobHead, MOST_LISTED_BYTES } from '../../store/shared/job-columns.ts';
import type { ClaimOfWorker } from '../../store/statements/claims.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { isGone } from '../../store/statements/workers.ts';
import type { StoreSession } from '../../store/store.ts';
import { jobStates, missedPolicies } from '../../store/words.ts';
import { parseExactly } from '../../system/base/exact-json.ts';
import { field, quoting, record, shown, type Values } from '../../system/base/record.ts';
import { findHold } from '../text/words.ts';
import { type JobActivity, jobActivityRecord, selectActivity } from './activity.ts';
import { readTimesOfJob, type UpcomingJob, upcomingJobRecord } from './next/upcoming-jobs.ts';
import { pauseRecord } from './pauses.ts';
import { type RunRecord, runRecord, selectRecords } from './runs/run.ts';

export const jobStateField = shown.words(jobStates, 'JobState');
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
  name: shown.text.like('mail/welcome'),
  state: jobStateField,
  data: field.json.like({ to: 'ada@example.org' }).about('JSON, as it was given'),
  result: field.json.about('JSON; null: none'),
  priority: shown.integer,
  runAt: shown.date,
  scheduledFor: shown.date.orNull,
  createdAt: shown.date,
  startedAt: shown.date.orNull,
  finishedAt: shown.date.orNull,
  attempts: shown.integer,
  maxAttempts: shown.integer.orNull,
  repeat: shown.text.like('daily at 10:00').orNull,
  missed: shown.words(missedPolicies),
  uniqueKey: field.text.like('order-4711').orNull,
  group: field.text.like('mails').orNull,
  parent: shown.integer.orNull,
  leaseMs: shown.number.orNull,
  leasedUntil: shown.date.orNull,
  reason: quoting.orNull,
  counters: shown.one(countersRecord),
});

/** With what keeps it from being run. */
const heldJobRecord = record('HeldJob', { ...jobRecord.fields, pause: shown.one(pauseRecord).orNull });

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
  field.one(
    record(null, { id: field.integer, name: field.text.like('mail/welcome'), data: field.json, result: field.json }),
  ),
);

/** The data that the worker of a job needs. */
export const claimedJobRecord = record('ClaimedJob', {
  ...jobRecord.fields,
  token: field.text.like('12.7').about('Needed to end the job'),
  attempt: field.integer,
  parentData: field.json,
  children: field.one(record(null, { finished: endedChildren, failed: endedChildren, cancelled: endedChildren })),
});

/** The number of jobs of a name in each state: `runner jobs --count --json`. */
export const jobCountRecord = record(null, {
  name: shown.text.like('mail/welcome'),
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
  name: shown.text.like('mail/welcome'),
  added: shown.integer,
  runs: shown.integer,
  succeeded: shown.integer,
  failed: shown.integer,
  timedOut: shown.integer,
  crashed: shown.integer,
  released: shown.integer,
  stopped: shown.integer,
  leasesExpired: shown.integer,
  buried: shown.integer,
  kicked: shown.integer,
});

/** The effect that a change of many jobs would have: `runner kick --dry-run --json`. */
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
  const dead = claims.filter(({ job, worker }) => isHeld(job) && isGone(worker));
  const expired = await store.claims.expired(nowMs, 0);
  return new Map([
    ...expired.map(({ job }) => [job.id, 'its claim has expired'] as const),
    ...dead.map((claim) => [claim.job.id, describeDead(claim)] as const),
  ]);
}

function describeDead({ worker: { pid, host } }: ClaimOfWorker): string {
  return `its worker (pid ${pid} on ${host}) died`;
}

export function asFound<J extends Job>(job: J, lost: LostClaims): J {
  const reason = lost.get(job.id);
  return reason === undefined ? job : { ...job, reason };
}

const childRecord = record(null, { id: shown.integer, name: shown.text.like('mail/welcome'), state: jobStateField });

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
  next: shown
    .list(field.one(record(null, { at: upcomingJobRecord.fields.at, isExpected: upcomingJobRecord.fields.isExpected })))
    .about('When it runs next, at most five times'),
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
  readonly next: readonly UpcomingJob[];
}

/** A family or a history longer than that nobody reads on a page. */
const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 500;
const MOST_TIMES = 5;

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
    next: await readTimesOfJob(job, { limit: MOST_TIMES, nowMs }),
  };
}
