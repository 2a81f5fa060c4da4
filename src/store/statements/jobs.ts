import { inPages } from '../../system/base/values.ts';
import type { JobRow } from '../schema.ts';
import { headOfJob, type JobHead, type SizedJobRow, sizedJob } from '../shared/job-columns.ts';
import { addRows } from '../shared/sql/rows.ts';
import { lock, type Statements } from '../shared/sql/statements.ts';
import { countedUntil, keepCounted, keepLateJobs, LateRows } from './counted.ts';
import { hasOpenKey, jobColumns, nextNumber, type RowChange, updateJobs } from './job-rows.ts';

/** Columns of a job as it is added; the store decides on `id` and `ready`. */
export type NewJobRow = Pick<
  JobRow,
  | 'name'
  | 'state'
  | 'data'
  | 'priority'
  | 'scheduled_for'
  | 'run_at'
  | 'retry'
  | 'repeat'
  | 'missed_policy'
  | 'unique_key'
  | 'concurrency_key'
  | 'parent_id'
  | 'on_child_failure'
  | 'lease_ms'
  | 'created_at'
> &
  Partial<Pick<JobRow, 'attempts' | 'started_at' | 'finished_at' | 'result' | 'reason'>>;

/** A change of a job's columns. The store keeps `ready` in step with `state` and `run_at` at the instant `at`. */
export interface JobChange {
  readonly id: number;
  /** The job has no children. If somebody has added one meanwhile, the whole transaction is repeated. */
  readonly isChildless?: boolean;
  readonly set: Partial<Omit<JobRow, 'id' | 'ready'>>;
}

const newColumns = [
  ...['name', 'state', 'data', 'priority', 'scheduled_for', 'run_at', 'retry', 'repeat'],
  ...['missed_policy', 'unique_key', 'concurrency_key', 'parent_id', 'on_child_failure', 'lease_ms'],
  ...['created_at', 'attempts', 'started_at', 'finished_at', 'result', 'reason'],
] as const satisfies readonly (keyof NewJobRow)[];

export function jobsOf(db: Statements) {
  return { ...changes(db), ...families(db), ...reads(db) };
}

function changes(db: Statements) {
  return {
    /** In their order; their numbers. None has a unique key that is taken, or a parent that was not locked. */
    add: (jobs: readonly NewJobRow[], at: number) => add(db, jobs, at),
    /** Locks jobs and their parents in ascending order, so that families change one after the other. */
    lock: (ids: readonly number[]) => lockJobs(db, ids),
    change: (list: readonly JobChange[], at: number) => change(db, list, at),
    /** Replaces the data of a job while this claim is valid. False: it is not. */
    updateData: async (id: number, token: string, data: string) =>
      (await db.run(`update jobs set data = ? where id = ? and claim_token = ? and state in ('claimed', 'running')`, [
        data,
        id,
        token,
      ])) > 0,
    /** Deletes jobs with their runs; names of output files that no run has any more. */
    delete: (ids: readonly number[]) => deleteJobs(db, ids),
  };
}

function families(db: Statements) {
  return {
    /** In ascending order, locked. */
    children: (parentId: number) =>
      db.all<SizedJobRow>(`select ${sizedJob} from jobs where parent_id = ? order by id ${locked(db)}`, [parentId]),
    hasOpenChildren: async (parentId: number) =>
      (await db.first(
        `select 1 as one from jobs where parent_id = ?
           and state in ('queued', 'claimed', 'running', 'retrying', 'paused') limit 1`,
        [parentId],
      )) !== undefined,
    /** Marks ended children as reported, so they are no news for the parent any more. */
    markReported: async (parentId: number) => {
      await db.run(
        `update jobs set reported_to_parent = 1
         where parent_id = ? and finished_at is not null and reported_to_parent = 0`,
        [parentId],
      );
    },
  };
}

/** In a transaction, locks the jobs that it reads: no other session changes them before its end. */
function locked({ inTransaction, dialect }: Statements): string {
  return inTransaction ? dialect.forUpdate : '';
}

function reads(db: Statements) {
  const { isIn } = db.dialect;
  const byId = (what: string) => `select ${what} from jobs where tier is null and ${isIn('id')} order by id`;
  return {
    /** Jobs of the queue by number, in ascending order; those that are not there are left out. */
    byId: (ids: readonly number[]) => db.all<JobHead>(`${byId(headOfJob)} ${locked(db)}`, [ids]),
    /** Like `byId`, with data and results; for a few jobs at a time. */
    wholeById: (ids: readonly number[]) => db.all<JobRow>(`${byId(jobColumns)} ${locked(db)}`, [ids]),
    /**
     * The unfinished jobs that have these keys, locked. Until the transaction's end nobody else adds a job with one of
     * them.
     */
    byUniqueKeys: (keys: readonly string[]) => byUniqueKeys(db, keys),
    /** Data of a job, merged with this by RFC 7396. */
    mergeData: async (id: number, patch: string) => {
      const row = await db.first<{ data: string }>(`select data from jobs where id = ? ${locked(db)}`, [id]);
      if (row === undefined) return patch;
      return (await import('../../system/base/exact-json.ts')).mergeJson(row.data, patch);
    },
  };
}

/**
 * A session that adds several keys holds the first ones while it waits for the next: two sessions that did so in
 * different orders would wait for each other. A session that adds one key holds no other, and needs no turn.
 */
async function byUniqueKeys(db: Statements, keys: readonly string[]): Promise<JobHead[]> {
  if (keys.length > 1 && db.inTransaction) await lock(db, 'unique-keys');
  const text = `select ${headOfJob} from jobs where ${hasOpenKey(db.dialect, 'jobs', db.dialect.isIn)} ${locked(db)}`;
  const jobs: JobHead[] = [];
  for (const page of inPages(keys)) jobs.push(...(await db.all<JobHead>(text, [page])));
  return jobs;
}

/** Columns that no row sets are left out, which are most of them. */
async function add(db: Statements, jobs: readonly NewJobRow[], at: number): Promise<number[]> {
  if (jobs.length === 0) return [];
  const set = newColumns.filter((column) => jobs.some((row) => (row[column] ?? null) !== null));
  const columns = [...set, 'ready'];
  const isAlone = db.dialect.name === 'sqlite' && jobs.length === 1;
  const rows = jobs.map((row) => [...set.map((column) => row[column]), isAlone ? unlooked(row) : readyOf(row, at)]);
  if (db.dialect.name === 'sqlite') return await addOnSqlite(db, jobs, { columns, rows });
  db.noteWork();
  const ids = await addRows(db, 'jobs', columns, rows);
  await new LateRows(db).jobs(
    ids,
    jobs.map(({ created_at }) => created_at),
  );
  return ids;
}

/** How many rows one statement of SQLite adds: each takes half the time of a statement of its own. */
const ROWS_AT_ONCE = 20;

interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** The last row also asks until when all is counted, so that one job takes one statement. */
async function addOnSqlite(db: Statements, jobs: readonly NewJobRow[], { columns, rows }: Rows): Promise<number[]> {
  const row = columns.map(() => '?').join(', ');
  const insertOf = (amount: number): string =>
    `insert into jobs (id, ${columns.join(', ')}) values (${nextNumber}, ${row})${`, (null, ${row})`.repeat(amount - 1)}`;
  const others = rows.length - 1;
  const whole = others - (others % ROWS_AT_ONCE);
  for (let start = 0; start < others; ) {
    const some = rows.slice(start, start + (start < whole ? ROWS_AT_ONCE : 1));
    await db.run(insertOf(some.length), some.flat());
    start += some.length;
  }
  const text = `${insertOf(1)} returning id, ${countedUntil} as until`;
  const { id, until } = (await db.first<{ id: number; until: number }>(text, rows[others])) as {
    id: number;
    until: number;
  };
  // They are numbered in their order, without a gap, as nobody else writes meanwhile.
  const ids = jobs.map((_, index) => id - others + index);
  const late = ids.filter((_, index) => (jobs[index] as NewJobRow).created_at < until);
  await keepLateJobs(db, late);
  return ids;
}

function readyOf(job: NewJobRow, at: number): number | null {
  return unlooked(job) === null ? null : Number(job.run_at <= at);
}

/**
 * A job that SQLite adds alone goes into one index, as by plain SQL: of a small transaction each index is a page to be
 * synced. The next claims move it to those that are due, with others.
 */
function unlooked({ state }: NewJobRow): number | null {
  return state === 'queued' || state === 'retrying' ? 0 : null;
}

/** By one statement, and in ascending order: so nobody waits for whoever waits for him. */
async function lockJobs(db: Statements, ids: readonly number[]): Promise<void> {
  const text = lockTexts[db.dialect.name];
  if (ids.length > 0 && text !== null) await db.all(text, [ids, ids]);
}

const lockTexts = {
  // A transaction has the write lock from its beginning.
  sqlite: null,
  postgres: `select id from jobs where id = any(array(
      select unnest(?::bigint[]) union select parent_id from jobs where id = any(?) and parent_id is not null))
    order by id for update`,
  // Without its limit, the order of what is joined is forgotten.
  mysql: `select jobs.id from (
      select id as wanted from jobs where id in (?)
      union select parent_id from jobs where id in (?) and parent_id is not null
      order by wanted limit 1000000000) as family
    straight_join jobs on jobs.id = family.wanted for update`,
} as const;

/** Changes of one job come in their order; of several, those of the same columns are one statement. */
async function change(db: Statements, list: readonly JobChange[], at: number): Promise<void> {
  const groups = new Map<string, RowChange[]>();
  const changed = new Set<number>();
  const flush = async (): Promise<void> => {
    for (const [key, group] of groups) await changeAlike(db, key, group, at);
    groups.clear();
    changed.clear();
  };
  for (const { id, set, isChildless = false } of list) {
    const columns = Object.keys(set).filter((column) => set[column as keyof typeof set] !== undefined);
    if (columns.length === 0) continue;
    if (changed.has(id)) await flush();
    changed.add(id);
    const key = `${isChildless ? 'childless' : ''}:${columns.sort().join()}`;
    const group = groups.get(key) ?? [];
    group.push({ id, set });
    groups.set(key, group);
  }
  await flush();
}

async function changeAlike(db: Statements, key: string, group: readonly RowChange[], at: number): Promise<void> {
  const [childless, names = ''] = key.split(':');
  const columns = names.split(',') as (keyof JobRow)[];
  const isMoved = columns.includes('state') || columns.includes('run_at');
  // A session that waits for the end of a job gets a notice as well, though later.
  if (isMoved && group.some(({ set }) => !isNobodysWork(set.state))) db.noteWork();
  await updateJobs(db, columns, group, { readyAt: isMoved ? at : undefined, areChildless: childless !== '' });
}

function isNobodysWork(state: JobRow['state'] | undefined): boolean {
  return state === 'finished' || state === 'failed' || state === 'cancelled' || state === 'running';
}

export async function deleteJobs(db: Statements, ids: readonly number[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const { isIn } = db.dialect;
  const ofJob = isIn('job_id');
  await keepCounted(db, { jobs: isIn('id'), runs: ofJob, events: ofJob }, [ids, ids, ids]);
  const rows = await db.all<{ output_file: string }>(
    `select output_file from runs where ${ofJob} and output_file is not null`,
    [ids],
  );
  if (db.dialect.name === 'sqlite') await keepNumber(db, Math.max(...ids));
  await db.run(`delete from jobs where ${isIn('id')}`, [ids]);
  return rows.map(({ output_file }) => output_file);
}

/** For `nextNumber`. A row of `sqlite_sequence` means nothing to SQLite itself if its table has no AUTOINCREMENT. */
async function keepNumber(db: Statements, id: number): Promise<void> {
  await db.run(`delete from sqlite_sequence where name = 'jobs' and seq < ?`, [id]);
  await db.run(
    `insert into sqlite_sequence (name, seq) select 'jobs', cast(? as integer)
     where ? = (select max(id) from jobs) and not exists (select 1 from sqlite_sequence where name = 'jobs')`,
    [id, id],
  );
}
