import { inPages } from '../../system/base/values.ts';
import type { JobRow } from '../schema.ts';
import { headOfJob, type JobHead } from '../shared/job-columns.ts';
import type { Dialect } from '../shared/sql/dialect.ts';
import { listsOf, quoted, unnest } from '../shared/sql/rows.ts';
import { type Announcement, RowTaken, type Statements } from '../shared/sql/statements.ts';

type Column = keyof JobRow;

/** A job with all that it carries. */
export const jobColumns = [headOfJob, 'jobs.data', 'jobs.result'].join(', ');

/** PostgreSQL reads all jobs for tokens that are not null, as long as it has not counted them. */
export const hasClaim = "claim_token > ''";

/** By priority, then by time: in the order of their index. */
export const nextFirst = ({ name }: Dialect): string => `${name === 'mysql' ? 'urgency' : 'priority desc'}, run_at, id`;

/** Whether a job has not ended and has a unique key that is wanted. */
export function hasOpenKey({ name }: Dialect, job: string, isWanted: (column: string) => string): string {
  if (name === 'mysql') return isWanted(`${job}.open_key`);
  return `${isWanted(`${job}.unique_key`)} and ${job}.finished_at is null`;
}

export interface RowChange {
  readonly id: number;
  readonly set: Partial<JobRow>;
}

/**
 * On SQLite, the number of a new job where SQLite would take that of a job that was deleted as the newest one; else null.
 * AUTOINCREMENT would write one page more for each job.
 */
export const nextNumber = `(select seq + 1 from sqlite_sequence
  where name = 'jobs' and seq >= (select coalesce(max(id), 0) from jobs))`;

interface UpdateOptions {
  /** Those of the queue stand in the index that their state and time ask for at this instant; left out: as they did. */
  readonly readyAt?: number | undefined;
  /** Should one of them have children, the transaction is begun anew. */
  readonly areChildless?: boolean;
  readonly news?: Announcement;
}

/** Changes rows of jobs, all of which have the same columns set. */
export async function updateJobs(
  db: Statements,
  columns: readonly Column[],
  changes: readonly RowChange[],
  options: UpdateOptions = {},
): Promise<void> {
  const update = updates[db.dialect.name];
  for (const page of inPages(changes)) {
    const changed = await update(db, columns, page, options);
    // A caller that adds a child has locked the parent's row: this statement has waited for it, and sees the child.
    if (options.areChildless && changed < page.length) throw new RowTaken('a job has children now');
  }
}

export const isChildless = '(select 1 from jobs as child where child.parent_id = jobs.id limit 1) is null';

const readyOf = (state: string, runAt: string): string =>
  `case when jobs.tier is null and ${state} in ('queued', 'retrying') then case when ${runAt} <= ? then 1 else 0 end end`;

/**
 * The statement differs only by its columns, so there are about a dozen texts. No other connection adds a child
 * meanwhile.
 */
async function updateOnSqlite(
  db: Statements,
  columns: readonly Column[],
  changes: readonly RowChange[],
  { readyAt }: UpdateOptions,
): Promise<number> {
  const assigned = columns.map((column) => `${quoted(column)} = ?`);
  const newest = (column: Column): string => (columns.includes(column) ? '?' : column);
  if (readyAt !== undefined) assigned.push(`ready = ${readyOf(newest('state'), newest('run_at'))}`);
  const text = `update jobs set ${assigned.join(', ')} where id = ?`;
  const moved = (['state', 'run_at'] as const).filter((column) => columns.includes(column));
  for (const { id, set } of changes) {
    const ready = readyAt === undefined ? [] : [...moved.map((column) => set[column]), readyAt];
    await db.run(text, [...columns.map((column) => set[column]), ...ready, id]);
  }
  return changes.length;
}

async function updateOnPostgres(
  db: Statements,
  columns: readonly Column[],
  changes: readonly RowChange[],
  { readyAt, areChildless = false, news }: UpdateOptions,
): Promise<number> {
  const newest = (column: Column): string => `${columns.includes(column) ? 'new' : 'jobs'}.${column}`;
  const assigned = columns.map((column) => `${quoted(column)} = new.${quoted(column)}`);
  if (readyAt !== undefined) assigned.push(`ready = ${readyOf(newest('state'), newest('run_at'))}`);
  const all: readonly Column[] = ['id', ...columns];
  const rows = changes.map(({ id, set }) => [id, ...columns.map((column) => set[column])]);
  return await db.run(
    `update jobs set ${assigned.join(', ')}
     from ${unnest(all)} as new (${all.map(quoted).join(', ')}) where jobs.id = new.id
       ${areChildless ? `and ${isChildless}` : ''}`,
    [...(readyAt === undefined ? [] : [readyAt]), ...listsOf(rows)],
    news,
  );
}

/** Assignments see what those before them have assigned. */
async function updateOnMysql(
  db: Statements,
  columns: readonly Column[],
  changes: readonly RowChange[],
  { readyAt, areChildless = false, news }: UpdateOptions,
): Promise<number> {
  const values: unknown[] = [];
  const assigned = columns.map((column) => {
    const [first, ...others] = changes.map(({ set }) => set[column]);
    if (others.every((value) => value === first)) {
      values.push(first);
      return `${quoted(column)} = ?`;
    }
    values.push(...changes.flatMap(({ id, set }) => [id, set[column]]));
    return `${quoted(column)} = case id ${'when ? then ? '.repeat(changes.length)}end`;
  });
  if (readyAt !== undefined) {
    assigned.push(`ready = ${readyOf('state', 'run_at')}`);
    values.push(readyAt);
  }
  const ids = changes.map(({ id }) => id);
  const { isIn } = db.dialect;
  // No statement asks for other rows of the table that it changes.
  const child = areChildless
    ? await db.first(`select 1 as one from jobs where ${isIn('parent_id')} limit 1`, [ids])
    : null;
  if (child != null) return 0;
  const text = `update jobs set ${assigned.join(', ')} where ${isIn('id')} order by id`;
  return await db.run(text, [...values, ids], news);
}

const updates = { sqlite: updateOnSqlite, postgres: updateOnPostgres, mysql: updateOnMysql };

/** A job as it is seen before it is claimed. */
export interface WaitingJob {
  readonly id: number;
  readonly name: string;
  readonly priority: number;
  readonly run_at: number;
  readonly concurrency_key: string | null;
}

export interface ExpiredClaim {
  readonly job: JobHead;
  readonly workerId: number | null;
}

/** Cap of the attempt counter; a row written by plain SQL may hold any number. */
export const MOST_COUNTED = Number.MAX_SAFE_INTEGER;

type Turn = Pick<WaitingJob, 'id' | 'priority' | 'run_at'>;

/** Which job is next. */
export function compareTurns(one: Turn, other: Turn): number {
  return other.priority - one.priority || one.run_at - other.run_at || one.id - other.id;
}

/** A dot ends the worker's number, and a slash is the character behind it. */
export const isOfWorker = 'claim_token is not null and claim_token >= ? and claim_token < ?';

/** The values of that. */
export function tokensOf(workerId: number): readonly string[] {
  return [`${workerId}.`, `${workerId}/`];
}

/** A claimed job that another program has moved on, while the process of its worker may still run. */
export const isEndedElsewhere = "state not in ('claimed', 'running')";

/** The worker that a token names; null: it is that of somebody else. */
export function workerOf(token: string): number | null {
  const [, number] = /^(\d+)\.\d+$/.exec(token) ?? [];
  return number === undefined ? null : Number(number);
}

/** The jobs whose leases have expired. A claim that is not a worker's has `graceMs` more. */
export function expiredAmong(jobs: readonly JobHead[], at: number, graceMs: number): ExpiredClaim[] {
  return jobs
    .map((job) => ({ job, workerId: workerOf(job.claim_token as string) }))
    .filter(({ job, workerId }) => workerId !== null || (job.lease_expires_at as number) < at - graceMs);
}

/** The instants at which time alone may change something. */
interface Moments {
  readonly due: number | null;
  readonly leaseEnd: number | null;
  readonly pauseEnd: number | null;
}

/** When to look again; null: nothing happens by itself. */
export function nextWakeAmong({ due, leaseEnd, pauseEnd }: Moments, at: number, graceMs: number): number | null {
  const moments = [due, leaseLook(leaseEnd, at, graceMs), pauseEnd].filter((each) => each !== null);
  return moments.length === 0 ? null : Math.min(...moments);
}

/** A lease that has expired already was left for another look. At its last instant it has not expired yet. */
function leaseLook(end: number | null, at: number, graceMs: number): number | null {
  if (end === null) return null;
  return end >= at ? end + 1 : at + graceMs / 2;
}
