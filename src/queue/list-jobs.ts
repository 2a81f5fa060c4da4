import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
import type { ActivityLog, JobRow, JobState } from '../store/schema.ts';
import { readJobId } from './find-job.ts';
import { endedStates, isWaitingJob, jobStates, waitingStates } from './job-states.ts';
import { invalid } from './job-values.ts';
import { fitsPatterns, readPatterns } from './name-patterns.ts';
import type { Job, ListOptions } from './queue.ts';
import { toJob } from './read-job.ts';
import type { JsonReader } from './stored-json.ts';

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
