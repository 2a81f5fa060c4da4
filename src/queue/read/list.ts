import type { ListedJobRow } from '../../store/shared/job-columns.ts';
import type { JobCountRow, JobFilter, JobTotalRow } from '../../store/statements/list-jobs.ts';
import { jobListsOf } from '../../store/statements/list-jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import { type JobState, jobStates, outcomes, waitingStates } from '../../store/words.ts';
import { invalid, type Patterns, readPatterns, readWhen, readWhole } from '../add/values.ts';
import type { JobCount, JobTotals, ListedJob, ListOptions } from '../api.ts';
import { type JsonReader, readJobId, toListedJob } from './jobs.ts';

const MOST_JOBS = 1_000;

type Order = NonNullable<ListOptions['order']>;

const orders: readonly Order[] = ['newest', 'oldest', 'next', 'soonest', 'kick'];

/** The options of a list; undefined: it is left out. */
type Listed = { readonly [Option in keyof ListOptions]: ListOptions[Option] | undefined };

/** With what only a paged list needs. */
export interface ListPageOptions extends Listed {
  /** How many jobs to skip first; not allowed with the order `kick`. Default 0. */
  readonly offset?: number | undefined;
}

export const listOptions = [
  ...['pattern', 'state', 'due', 'parent', 'order', 'limit', 'before', 'after', 'since', 'until'],
] as const satisfies readonly (keyof ListOptions)[];

/** Lists jobs of the queue; without an order, the newest first. */
export async function listJobs(
  session: StoreSession,
  options: ListPageOptions,
  at: number,
  read?: JsonReader,
): Promise<ListedJob[]> {
  const { order = 'newest', limit = 50 } = options;
  readWhole('The limit', 1, MOST_JOBS, limit, 'limit');
  if (!orders.includes(order)) throw invalid('The order', `one of ${orders.join(', ')}`, order, 'order');
  const rows =
    order === 'kick'
      ? await listKicked(session, options, limit, at)
      : await jobListsOf(session.statements).list({
          ...readFilter(options, at),
          order,
          limit,
          offset: options.offset,
        });
  return await toListedJobs(session, rows, read);
}

async function toListedJobs(
  session: StoreSession,
  rows: readonly ListedJobRow[],
  read?: JsonReader,
): Promise<ListedJob[]> {
  const jobs: ListedJob[] = [];
  for (const row of rows) jobs.push(await toListedJob(session, row, read));
  return jobs;
}

/** The result of a search. */
export interface JobsFound {
  readonly jobs: readonly ListedJob[];
  /** How many jobs were searched. */
  readonly looked: number;
  /** The last one of these: a search with `before` or `after` it goes on; null: there are no more jobs. */
  readonly last: number | null;
}

export interface SearchOptions extends Omit<Listed, 'order'> {
  readonly order?: 'newest' | 'oldest';
  /** Searched in data, result and reason as they are stored; A to Z match in either case. */
  readonly text: string;
  /** Called from time to time; returns whether the search has taken long enough. */
  readonly isLate: () => boolean;
}

/** The jobs that one search looks at. */
export const MOST_SEARCHED = 100_000;

/** Finds jobs that contain a text. It reads each job, so it stops after a while, or after 100,000, and says where. */
export async function searchJobs(
  session: StoreSession,
  { text, isLate, order = 'newest', limit = 50, ...options }: SearchOptions,
  at: number,
  read?: JsonReader,
): Promise<JobsFound> {
  const filter = { ...readFilter(options, at), order, limit };
  const lists = jobListsOf(session.statements);
  const { ids, looked, last } = await lists.search(filter, { text, most: MOST_SEARCHED, isLate });
  const rows = new Map((await lists.listById(ids)).map((row) => [row.id, row]));
  const found = ids.flatMap((id) => rows.get(id) ?? []);
  return { jobs: await toListedJobs(session, found, read), looked, last };
}

/** The number of jobs that filters choose. */
export async function countMatching(session: StoreSession, options: Listed, at: number): Promise<number> {
  return await jobListsOf(session.statements).total(readFilter(options, at));
}

/** The filters of a list, as the log is asked for them. */
export function readFilter(options: Listed, at: number): JobFilter {
  const { due, pattern, parent, before, after } = options;
  const readId = (id: number | undefined) => (id === undefined ? undefined : readJobId(id));
  const readTime = (field: 'since' | 'until', when = options[field]) =>
    when === undefined ? undefined : readWhen(when, at, field);
  return {
    patterns: pattern === undefined ? undefined : readPatterns(pattern),
    states: readStates(options),
    due,
    parent: readId(parent),
    before: readId(before),
    after: readId(after),
    since: readTime('since'),
    until: readTime('until'),
    at,
  };
}

async function listKicked(
  session: StoreSession,
  { pattern = '*', order: _, limit: __, ...others }: ListPageOptions,
  limit: number,
  at: number,
): Promise<ListedJobRow[]> {
  const [other] = Object.entries(others).find(([, value]) => value !== undefined) ?? [];
  if (other !== undefined) throw invalid('The order kick', 'used with pattern and limit alone', other);
  const ids = await nextToKick(session, readPatterns(pattern), limit, at);
  const rows = new Map((await jobListsOf(session.statements).listById(ids)).map((row) => [row.id, row]));
  return ids.flatMap((id) => rows.get(id) ?? []);
}

/**
 * The jobs that a kick takes, in its order: failed jobs, the oldest failure first. Only if none of them can be queued
 * again: jobs that are not due yet, the next ones first.
 */
export async function nextToKick(
  { statements }: StoreSession,
  patterns: readonly string[],
  count: number,
  at: number,
): Promise<number[]> {
  const jobs = jobListsOf(statements);
  const failed = await jobs.revivable(patterns, count);
  return failed.length > 0 ? failed : await jobs.delayed(patterns, count, at);
}

/** The wanted states; undefined: any. A claimed job counts as running: it runs already, or in a moment. */
function readStates({ state, due, order }: Listed): readonly JobState[] | undefined {
  const isOfWaiting = due !== undefined || order === 'next' || order === 'soonest';
  if (due !== undefined && due !== 'ready' && due !== 'delayed') {
    throw invalid('The filter `due`', 'ready or delayed', due, 'due');
  }
  if (state === undefined) return isOfWaiting ? waitingStates : undefined;
  const states = typeof state === 'string' ? [state] : state;
  const isList = Array.isArray(states) && states.length > 0;
  if (isList && states.every((each) => jobStates.includes(each))) {
    return states.includes('running') ? [...states, 'claimed'] : states;
  }
  throw invalid('A state', `one of ${jobStates.join(', ')}`, state, 'state');
}

/**
 * How many jobs of each handler are in each state. Names are counted without their parameters, which may differ for
 * each job.
 */
export async function countJobs(session: StoreSession, patterns: Patterns, at: number): Promise<JobCount[]> {
  const rows = await jobListsOf(session.statements).count(readPatterns(patterns), at);
  const byName = Map.groupBy(rows, ({ handler }) => handler);
  return [...byName].map(([name, counts]) => ({ name, ...toCounts(counts) }));
}

/** How many jobs of all names together are in each state. */
export async function countAllJobs(session: StoreSession | null, at: number): Promise<StateCounts> {
  return toCounts(session === null ? [] : await jobListsOf(session.statements).countAll(at));
}

type StateCounts = Omit<JobCount, 'name'>;

type CountRow = Omit<JobCountRow, 'handler'>;

function toCounts(rows: readonly CountRow[]): StateCounts {
  const countOf = (isCounted: (row: CountRow) => boolean): number =>
    rows.filter(isCounted).reduce((sum, { jobs }) => sum + jobs, 0);
  const inState = (state: JobState): number => countOf((row) => row.state === state);
  return {
    ready: countOf((row) => row.state === 'queued' && row.isDue),
    delayed: countOf((row) => row.state === 'queued' && !row.isDue),
    running: inState('running') + inState('claimed'),
    retrying: inState('retrying'),
    paused: inState('paused'),
    failed: inState('failed'),
    finished: inState('finished'),
    cancelled: inState('cancelled'),
  };
}

/** Counts the events of each handler's jobs since the log began. */
export async function totalJobs(session: StoreSession, patterns: Patterns): Promise<JobTotals[]> {
  return toTotals(await jobListsOf(session.statements).totals(readPatterns(patterns)));
}

/** The same of all jobs, where the number of those that there are is known: to count them takes most of the time. */
export async function totalCounted(session: StoreSession, counts: readonly JobCount[]): Promise<JobTotals[]> {
  const added = counts.map(({ name: handler, ...states }): JobTotalRow => {
    return { handler, what: 'added', times: Object.values(states).reduce((sum, jobs) => sum + jobs, 0) };
  });
  const totals = toTotals([...added, ...(await jobListsOf(session.statements).totalsOfRuns())]);
  return totals.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function toTotals(rows: readonly JobTotalRow[]): JobTotals[] {
  return [...Map.groupBy(rows, ({ handler }) => handler)].map(([name, counts]) => toTotal(name, counts));
}

function toTotal(name: string, rows: readonly JobTotalRow[]): JobTotals {
  const sum = (...wanted: readonly JobTotalRow['what'][]): number =>
    rows.filter(({ what }) => wanted.includes(what)).reduce((total, { times }) => total + times, 0);
  return {
    name,
    added: sum('added'),
    runs: sum(...outcomes, 'lost'),
    succeeded: sum('succeeded'),
    failed: sum('failed', 'killed', 'not-started'),
    timedOut: sum('timed-out'),
    crashed: sum('crashed'),
    released: sum('released'),
    stopped: sum('stopped'),
    leasesExpired: sum('job-lease-expired'),
    buried: sum('job-buried'),
    kicked: sum('job-kicked'),
  };
}
