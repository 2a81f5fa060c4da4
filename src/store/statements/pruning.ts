import { machineName } from '../../system/process/identity.ts';
import type { Condition, Dialect } from '../shared/sql/dialect.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { isFailure, type JobState, outcomes } from '../words.ts';
import { keepCounted } from './counted.ts';
import { deleteJobs } from './jobs.ts';

/** From before which instant it goes. */
export interface Expiry {
  readonly succeeded: number;
  readonly failed: number;
  /** Machines: the time when they were last seen. */
  readonly seen: number;
}

/** Whether there is anything that its step would delete. */
export interface Prunable {
  readonly jobs: boolean;
  readonly runs: boolean;
  readonly events: boolean;
  readonly workers: boolean;
  readonly machines: boolean;
  readonly usedBytes: number;
}

export interface PruneStep {
  readonly deleted: number;
  readonly outputFiles: readonly string[];
}

const failures = outcomes
  .filter(isFailure)
  .map((outcome) => `'${outcome}'`)
  .join(', ');

/** A parent that has not ended still needs its children; one that repeats never ends. */
const isReported = `(jobs.parent_id is null or jobs.reported_to_parent = 1 or coalesce(
  (select coalesce(parent.finished_at, -1) from jobs parent where parent.id = jobs.parent_id), 0) >= 0)`;

const nothing: PruneStep = { deleted: 0, outputFiles: [] };

/**
 * Each step runs in a transaction. MySQL cannot delete from a table that the same statement reads: ids are read first.
 * What gives room back to the disk is the engine's own.
 */
export function pruningOf(db: Statements) {
  return {
    /** Finds whether there is something to prune: one query, which waits for nobody. */
    look: (before: Expiry) => look(db, before),
    /** Jobs of the queue in these states that ended before, the longest ago first, with their runs. */
    endedJobs: (states: readonly JobState[], before: number, limit: number) =>
      removeJobs(db, `${areEnded(db)} order by finished_at limit ?`, [states, before, limit]),
    /** Runs that began before, of scripts and of jobs that repeat: those have no end to go by. */
    runs: (before: Pick<Expiry, 'succeeded' | 'failed'>, limit: number) => removeOldRuns(db, before, limit),
    /** The oldest of what has ended, whatever its age: to come below a size. */
    oldest: (limit: number) => removeOldest(db, limit),
    events: async (before: number, limit: number) => {
      const ids = await numbersOf(db, 'select id from events where at < ? order by at, id limit ?', [before, limit]);
      if (ids.length === 0) return nothing;
      await keepCounted(db, { events: db.dialect.isIn('events.id') }, [ids]);
      return { ...nothing, deleted: await db.run(`delete from events where ${db.dialect.isIn('id')}`, [ids]) };
    },
    /** Workers that ended before; one stays as long as one of its runs does. */
    workers: (before: number, limit: number) => removeWorkers(db, before, limit),
    /** Bytes of the log in use, output files included; free space inside the file does not count. */
    usedBytes: () => usedBytes(db),
    /** How many rows remain for `oldest` to delete: runs, or ended jobs if there are no runs. */
    rows: async () =>
      (
        await db.first<{ amount: number }>(
          `select coalesce(nullif((select count(*) from runs), 0),
             (select count(*) from jobs where finished_at is not null and tier is null)) as amount`,
        )
      )?.amount ?? 0,
  };
}

const areEnded = ({ dialect }: Statements): string => `${dialect.isIn('state')} and finished_at < ?
  and finished_at is not null and tier is null and ${isReported}`;

/**
 * Old runs of jobs that have no end: scripts, and jobs that repeat. A run's age counts from its end. Other runs go with
 * their jobs. `case` makes the server look up jobs one by one: a server that begins with all jobs sorts all runs.
 */
const areOld = ({ dialect }: Statements): string => `runs.id < ${youngFrom(dialect, 'runs')} and outcome <> 'running'
  and coalesce(finished_at, started_at) < case when outcome in (${failures}) then ${dialect.integer('?')}
    else ${dialect.integer('?')} end
  and case when exists (select 1 from jobs where jobs.id = job_id
    and (tier is not null or ("repeat" is not null and jobs.finished_at is null))) then 1 else 0 end = 1`;

const workersWithoutRuns = ({ dialect }: Statements): string => `workers left join (
    select distinct worker_id from runs where id < ${youngFrom(dialect, 'runs')} and worker_id is not null) as kept
    on kept.worker_id = workers.id
  where finished_at < ? and workers.id < ${youngFrom(dialect, 'workers')} and kept.worker_id is null`;

async function look(db: Statements, { succeeded, failed, seen }: Expiry): Promise<Prunable> {
  const longest = Math.min(succeeded, failed);
  const has = (rows: string): string => `case when exists (select 1 from ${rows}) then 1 else 0 end`;
  const bytes = usedBytesOn(db.dialect);
  const row = await db.first<Record<keyof Prunable, number>>(
    `select ${has(`jobs where ${areEnded(db)}`)} + ${has(`jobs where ${areEnded(db)}`)} as jobs,
       ${has(`runs where ${areOld(db)}`)} as runs, ${has('events where at < ?')} as events,
       ${has(workersWithoutRuns(db))} as workers, ${has('machines where seen_at < ?')} as machines,
       ${bytes.text} as "usedBytes"`,
    [
      ...[['finished', 'cancelled'], succeeded, ['failed'], failed],
      ...[await youngFor(db, 'runs', Math.max(succeeded, failed)), failed, succeeded, succeeded],
      ...[await youngFor(db, 'runs', longest), longest, await youngFor(db, 'workers', longest), seen],
      ...bytes.values,
    ],
  );
  const isAny = (kind: keyof Prunable): boolean => (row?.[kind] ?? 0) > 0;
  return {
    jobs: isAny('jobs'),
    runs: isAny('runs'),
    events: isAny('events'),
    workers: isAny('workers'),
    machines: isAny('machines'),
    usedBytes: Math.round(row?.usedBytes ?? 0),
  };
}

async function numbersOf(db: Statements, text: string, values: readonly unknown[]): Promise<number[]> {
  // Another machine may be pruning some of them at this moment.
  const rows = await db.all<{ id: number }>(`${text} ${db.dialect.skipLocked}`, values);
  return rows.map(({ id }) => id);
}

async function removeJobs(db: Statements, where: string, values: readonly unknown[]): Promise<PruneStep> {
  const ids = await numbersOf(db, `select id from jobs where ${where}`, values);
  return { deleted: ids.length, outputFiles: await deleteJobs(db, ids) };
}

interface RunWithFile {
  readonly id: number;
  readonly output_file: string | null;
}

async function removeRuns(db: Statements, runs: readonly RunWithFile[]): Promise<PruneStep> {
  if (runs.length === 0) return nothing;
  const ids = runs.map(({ id }) => id);
  await keepCounted(db, { runs: db.dialect.isIn('runs.id') }, [ids]);
  const deleted = await db.run(`delete from runs where ${db.dialect.isIn('id')}`, [ids]);
  return { deleted, outputFiles: runs.flatMap(({ output_file }) => output_file ?? []) };
}

/**
 * Number of the first row that is young: rows are numbered in the order of their instants, nearly, so that those behind
 * it need no look. A row that is ahead of the newest was written while the clock was, and says nothing.
 */
const firstYoung = (table: 'runs' | 'workers'): string =>
  `coalesce((select id from ${table} where started_at between ? and
     (select started_at from ${table} order by id desc limit 1) order by id limit 1), ${Number.MAX_SAFE_INTEGER})`;

/** A server plans by the number, which is read before: {@link youngFor} is the value of both. */
const youngFrom = ({ name }: Dialect, table: 'runs' | 'workers'): string =>
  name === 'sqlite' ? firstYoung(table) : '?';

async function youngFor(db: Statements, table: 'runs' | 'workers', before: number): Promise<number> {
  if (db.dialect.name === 'sqlite') return before;
  const young = await db.first<{ id: number }>(`select ${firstYoung(table)} as id`, [before]);
  return young?.id ?? Number.MAX_SAFE_INTEGER;
}

async function removeOldRuns(
  db: Statements,
  { succeeded, failed }: Pick<Expiry, 'succeeded' | 'failed'>,
  limit: number,
): Promise<PruneStep> {
  const old = await db.all<RunWithFile>(
    `select runs.id, output_file from runs where ${areOld(db)} order by runs.id limit ? ${db.dialect.skipLocked}`,
    [await youngFor(db, 'runs', Math.max(succeeded, failed)), failed, succeeded, limit],
  );
  return await removeRuns(db, old);
}

async function removeWorkers(db: Statements, before: number, limit: number): Promise<PruneStep> {
  const old = await db.all<{ id: number }>(
    `select workers.id from ${workersWithoutRuns(db)} order by workers.id limit ?`,
    [await youngFor(db, 'runs', before), before, await youngFor(db, 'workers', before), limit],
  );
  if (old.length === 0) return nothing;
  const ids = old.map(({ id }) => id);
  return { ...nothing, deleted: await db.run(`delete from workers where ${db.dialect.isIn('id')}`, [ids]) };
}

/** By their runs, as those are numbered in their order; then what has ended without any. */
async function removeOldest(db: Statements, limit: number): Promise<PruneStep> {
  const oldest = await db.all<RunWithFile & { job_id: number; goes_whole: number }>(
    `select runs.id, runs.output_file, runs.job_id, case when jobs.tier is null and jobs.finished_at is not null
       and ${isReported} then 1 else 0 end as goes_whole
     from runs join jobs on jobs.id = runs.job_id where outcome <> 'running' order by runs.id limit ? ${db.dialect.skipLocked}`,
    [limit],
  );
  if (oldest.length === 0) {
    const ended = `finished_at is not null and tier is null and ${isReported} order by id limit ?`;
    return await removeJobs(db, ended, [limit]);
  }
  const jobs = [...new Set(oldest.filter(({ goes_whole }) => goes_whole === 1).map((run) => run.job_id))];
  const removed = await removeRuns(
    db,
    oldest.filter(({ goes_whole }) => goes_whole === 0),
  );
  const outputFiles = [...removed.outputFiles, ...(await deleteJobs(db, jobs))];
  return { deleted: removed.deleted + jobs.length, outputFiles };
}

async function usedBytes(db: Statements): Promise<number> {
  const { text, values } = usedBytesOn(db.dialect);
  const found = await db.first<{ bytes: number }>(`select ${text} as bytes`, values);
  return Math.round(found?.bytes ?? 0);
}

/** The bytes of the tables, and of the output files on this machine. */
function usedBytesOn({ name }: Dialect): Condition {
  const files = 'select coalesce(sum(output_file_bytes), 0) from runs';
  if (name === 'sqlite') return { text: `((${fileBytes}) + (${files} where output_file is not null))`, values: [] };
  return {
    text: `((${name === 'postgres' ? postgresBytes : mysqlBytes}) + (${files} join workers on workers.id = runs.worker_id
      join hosts on hosts.id = workers.host_id where output_file is not null and host = ?))`,
    values: [machineName()],
  };
}

const fileBytes = `select (page_count - freelist_count) * page_size
  from pragma_page_count, pragma_freelist_count, pragma_page_size`;

/** Those that grow, by what is numbered. */
const growing = { runs: 'id', outputs: 'run_id', jobs: 'id', events: 'id', workers: 'id' };

/** How many of the newest rows give the average size of a row. */
const SAMPLE = 200;

/**
 * The bytes of a table, estimated by the number of its rows and the size of the newest: a table does not become smaller
 * as rows are deleted. By its real size, all rows would be deleted before it came below a limit.
 */
const estimate = ([table, key]: readonly [string, string]): string =>
  `select least(whole, greatest(live, 0) * coalesce(row_bytes, 0) * whole / greatest(own, 1)) as bytes
   from (select pg_total_relation_size(oid) as whole, pg_table_size(oid) as own,
     coalesce(nullif(pg_stat_get_live_tuples(oid), 0), reltuples) as live,
     (select avg(pg_column_size(newest)) + 4
       from (select * from ${table} order by ${key} desc limit ${SAMPLE}) as newest) as row_bytes
     from pg_class where oid = cast('${table}' as regclass)) as sizes`;

const postgresBytes = `select sum(bytes) from (
  ${Object.entries(growing).map(estimate).join(' union all ')}
  union all select pg_total_relation_size(oid) from pg_class
    where relnamespace = cast(current_schema() as regnamespace) and relkind = 'r'
      and relname not in (${Object.keys(growing).map((table) => `'${table}'`)})) as tables`;

/** As the server has last estimated it. */
const mysqlBytes = `select coalesce(sum(data_length + index_length), 0) from information_schema.tables
  where table_schema = database()`;
