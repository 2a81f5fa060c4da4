import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { ActivityLog, JobRow, JobState } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import { invalid } from '../add/values.ts';
import type { Job, JobCount, ListOptions } from '../api.ts';
import { fitsPatterns, type Patterns, readPatterns } from '../patterns.ts';
import { type JsonReader, readJobId, toJob } from './jobs.ts';
import { endedStates, isWaitingJob, jobStates, waitingStates } from './states.ts';

const MOST_JOBS = 1_000;

type Order = NonNullable<ListOptions['order']>;

const orders: readonly Order[] = ['newest', 'next', 'soonest'];

/** Jobs of the queue; without an order, the newest first. */
export async function listJobs(
  db: Database,
  options: ListOptions,
  at: number,
  read?: JsonReader,
): Promise<Job[]> {
  const states = readStates(options);
  const { order = 'newest', limit = 50 } = options;
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_JOBS) {
    throw invalid('The limit', `a whole number from 1 to ${MOST_JOBS}`, limit);
  }
  if (!orders.includes(order)) throw invalid('The order', `one of ${orders.join(', ')}`, order);
  const query = filtered(db, options, states, at).limit(limit);
  return (await inOrder(db, query, states, order)).map((row) => toJob(row, read));
}

/** Null: any. */
function readStates({ state, due, order }: ListOptions): readonly JobState[] | null {
  const isOfWaiting = due !== undefined || order === 'next' || order === 'soonest';
  if (due !== undefined && due !== 'ready' && due !== 'delayed') {
    throw invalid('What is due', 'ready or delayed', due);
  }
  if (state === undefined) return isOfWaiting ? waitingStates : null;
  const states = typeof state === 'string' ? [state] : state;
  const isList = Array.isArray(states) && states.length > 0;
  if (isList && states.every((each) => jobStates.includes(each))) return states;
  throw invalid('A state', `one of ${jobStates.join(', ')}`, state);
}

type JobQuery = SelectQueryBuilder<ActivityLog, 'jobs', JobRow>;

function filtered(
  db: Database,
  { pattern, due, parent, before }: ListOptions,
  states: readonly JobState[] | null,
  at: number,
): JobQuery {
  const conditions: RawBuilder<boolean>[] = [];
  if (states !== null) conditions.push(sql`jobs.state in (${sql.join(states)})`);
  if (states !== null && isWithin(states, waitingStates)) conditions.push(isWaitingJob);
  if (pattern !== undefined) conditions.push(fitsPatterns(readPatterns(pattern)));
  if (due === 'ready') conditions.push(sql`jobs.run_at <= ${at}`);
  if (due === 'delayed') conditions.push(sql`jobs.run_at > ${at}`);
  if (parent !== undefined) conditions.push(sql`jobs.parent_id = ${readJobId(parent)}`);
  if (before !== undefined) conditions.push(sql`jobs.id < ${readJobId(before)}`);
  const all = db.selectFrom('jobs').selectAll().where('tier', 'is', null);
  return conditions.reduce((query, condition) => query.where(condition), all);
}

function isWithin(states: readonly JobState[], others: readonly JobState[]): boolean {
  return states.every((state) => others.includes(state));
}

async function inOrder(
  db: Database,
  query: JobQuery,
  states: readonly JobState[] | null,
  order: Order,
): Promise<JobRow[]> {
  if (order === 'newest') return await newest(db, query, states);
  if (order === 'soonest') return await soonest(db, query);
  return await query.orderBy('priority', 'desc').orderBy('run_at').orderBy('id').execute();
}

/** Sorted are numbers from an index alone; whole rows are read only of those that are wanted. */
async function soonest(db: Database, query: JobQuery): Promise<JobRow[]> {
  const ids = query.clearSelect().select('jobs.id').orderBy('run_at').orderBy('id');
  const all = db.selectFrom('jobs').selectAll().where('id', 'in', ids);
  return await all.orderBy('run_at').orderBy('id').execute();
}

/** Up to so many, sorting them costs less than looking for them among all others. */
const FEW = 1_000;

/**
 * Among many, the newest are found soonest from the table's end; the few failed ones among a million
 * by their index.
 */
async function newest(
  db: Database,
  query: JobQuery,
  states: readonly JobState[] | null,
): Promise<JobRow[]> {
  const index = states === null ? null : indexFor(states);
  if (index === null || !(await areFew(db, index)))
    return await query.orderBy('id', 'desc').execute();
  return await query.where(index).orderBy(sql`+jobs.id`, 'desc').execute();
}

/** The condition that makes an index answer. */
function indexFor(states: readonly JobState[]): RawBuilder<boolean> | null {
  if (isWithin(states, ['running'])) return sql`jobs.leased_until is not null`;
  if (isWithin(states, waitingStates)) return isWaitingJob;
  if (!isWithin(states, endedStates)) return null;
  return sql`(jobs.finished_at is not null and jobs.state in (${sql.join(states)}))`;
}

async function areFew(db: Database, index: RawBuilder<boolean>): Promise<boolean> {
  const { rows } = await sql<{ jobs: number }>`
    select count(*) as jobs from (select 1 from jobs where ${index} limit ${FEW + 1})`.execute(db);
  return (rows[0]?.jobs ?? 0) <= FEW;
}

/** How many jobs of each name are in which state, by name. */
export async function countJobs(db: Database, patterns: Patterns, at: number): Promise<JobCount[]> {
  const rows = await selectCounts(db, readPatterns(patterns), at);
  const names = [...new Set(rows.map(({ name }) => name))];
  return names.map((name) =>
    toCount(
      name,
      rows.filter((row) => row.name === name),
    ),
  );
}

/** Jobs of a name that are alike: `waiting` are queued and retrying ones together. */
interface Row {
  readonly name: string;
  readonly state: JobState | 'waiting';
  readonly jobs: number;
  /** How many of them are not due, of those that wait. */
  readonly delayed: number;
}

/**
 * What waits can be a million, and is counted in an index alone. That knows no states, so queued jobs
 * are what is left of it without the retrying ones.
 */
async function selectCounts(db: Database, patterns: readonly string[], at: number): Promise<Row[]> {
  const fits = fitsPatterns(patterns);
  const { rows } = await sql<Row>`
    select name, 'waiting' as state, count(*) as jobs, sum(run_at > ${at}) as delayed
    from jobs indexed by jobs_waiting_by_name where ${isWaitingJob} and ${fits} group by name
    union all
    select name, state, count(*), case when is_delayed then count(*) else 0 end
    from (select name, state, case when state = 'retrying' then run_at > ${at} end as is_delayed
      from jobs where tier is null and state <> 'queued' and ${fits})
    group by name, state, is_delayed
    order by name`.execute(db);
  return rows;
}

function toCount(name: string, rows: readonly Row[]): JobCount {
  const sum = (state: Row['state'], column: 'jobs' | 'delayed') =>
    rows.filter((row) => row.state === state).reduce((total, row) => total + row[column], 0);
  const countOf = (state: Row['state']) => sum(state, 'jobs');
  const delayed = sum('waiting', 'delayed') - sum('retrying', 'delayed');
  return {
    name,
    ready: countOf('waiting') - countOf('retrying') - delayed,
    delayed,
    running: countOf('running'),
    retrying: countOf('retrying'),
    paused: countOf('paused'),
    failed: countOf('failed'),
    finished: countOf('finished'),
    cancelled: countOf('cancelled'),
  };
}
