import { machineName } from '../../../system/process/identity.ts';
import { columnsOf } from '../../columns.ts';
import type { EventStore, Expiry, NewEvent, Prunable, PruneStep, PruneStore } from '../../contract/housekeeping.ts';
import { addRows } from '../../shared/sql/rows.ts';
import { tables } from '../../tables.ts';
import { isFailure, outcomes } from '../../words.ts';
import type { ServerStatements } from '../session.ts';
import { keepCounted, LateRowsOnServer } from './counted.ts';
import { deleteJobsOnServer } from './jobs.ts';

export function serverEvents(db: ServerStatements): EventStore {
  return {
    record: (events) => recordEvents(db, events),
    newestAt: async () =>
      (
        await db.first<{ at: number | null }>(
          `select max(at) as at from (
             select * from (select started_at as at from workers order by id desc limit 1) as newest_worker
             union all select * from (select created_at from jobs order by id desc limit 1) as newest_job
             union all select * from (select at from events order by id desc limit 1) as newest_event) as newest`,
        )
      )?.at ?? null,
  };
}

const eventColumns = columnsOf(tables.events, ['id']);

export async function recordEvents(db: ServerStatements, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(({ at, event, workerId = null, jobId = null, runId = null, detail = null, actor = null }) => [
    ...[at, event, workerId, jobId, runId, detail, actor],
  ]);
  const ids = await addRows(db, 'events', eventColumns, rows);
  const ends = events.flatMap(({ at, event }, index) =>
    event === 'job-failed' || event === 'job-buried' ? [{ id: ids[index] as number, at }] : [],
  );
  await new LateRowsOnServer(db).events(ends);
}

const failures = outcomes
  .filter(isFailure)
  .map((outcome) => `'${outcome}'`)
  .join(', ');

/** A parent that has not ended still needs its children; one that repeats never ends. */
const isReported = `(jobs.parent_id is null or jobs.reported_to_parent = 1 or coalesce(
  (select coalesce(parent.finished_at, -1) from jobs parent where parent.id = jobs.parent_id), 0) >= 0)`;

/** Skips the rows that another machine is pruning at this moment. */
const unlessTaken = 'for update skip locked';

const nothing: PruneStep = { deleted: 0, outputFiles: [] };

/**
 * Each step runs in a transaction. MySQL cannot delete from a table that the same statement reads: ids are read first.
 */
export function serverPruning(db: ServerStatements): PruneStore {
  return {
    look: (before) => look(db, before),
    endedJobs: (states, before, limit) =>
      removeJobs(db, `${areEnded(db)} order by finished_at limit ?`, [states, before, limit]),
    runs: (before, limit) => removeOldRuns(db, before, limit),
    oldest: (limit) => removeOldest(db, limit),
    events: async (before, limit) => {
      const ids = await numbersOf(db, 'select id from events where at < ? order by at, id limit ?', [before, limit]);
      if (ids.length === 0) return nothing;
      await keepCounted(db, { events: db.dialect.isIn('events.id') }, [ids]);
      return { ...nothing, deleted: await db.run(`delete from events where ${db.dialect.isIn('id')}`, [ids]) };
    },
    workers: (before, limit) => removeWorkers(db, before, limit),
    usedBytes: () => usedBytes(db),
    rows: async () =>
      (
        await db.first<{ amount: number }>(
          `select coalesce(nullif((select count(*) from runs), 0),
             (select count(*) from jobs where finished_at is not null and tier is null)) as amount`,
        )
      )?.amount ?? 0,
    // A server uses the room that has become free by itself.
    shrink: async () => {},
  };
}

const areEnded = ({ dialect }: ServerStatements): string => `${dialect.isIn('state')} and finished_at < ?
  and finished_at is not null and tier is null and ${isReported}`;

/**
 * Old runs of jobs that have no end: scripts, and jobs that repeat. A run's age counts from its end. Other runs go with
 * their jobs. `case` makes the server look up jobs one by one: a server that begins with all jobs sorts all runs.
 */
const areOld = ({ dialect: { integer } }: ServerStatements): string => `runs.id < ? and outcome <> 'running'
  and coalesce(finished_at, started_at) < case when outcome in (${failures}) then ${integer('?')} else ${integer('?')} end
  and case when exists (select 1 from jobs where jobs.id = job_id
    and (tier is not null or ("repeat" is not null and jobs.finished_at is null))) then 1 else 0 end = 1`;

const workersWithoutRuns = `workers left join (
    select distinct worker_id from runs where id < ? and worker_id is not null) as kept on kept.worker_id = workers.id
  where finished_at < ? and workers.id < ? and kept.worker_id is null`;

async function look(db: ServerStatements, { succeeded, failed, seen }: Expiry): Promise<Prunable> {
  const longest = Math.min(succeeded, failed);
  const has = (rows: string): string => `case when exists (select 1 from ${rows}) then 1 else 0 end`;
  const row = await db.first<Record<Exclude<keyof Prunable, 'usedBytes'>, number>>(
    `select ${has(`jobs where ${areEnded(db)}`)} + ${has(`jobs where ${areEnded(db)}`)} as jobs,
       ${has(`runs where ${areOld(db)}`)} as runs, ${has('events where at < ?')} as events,
       ${has(workersWithoutRuns)} as workers, ${has('machines where seen_at < ?')} as machines`,
    [
      ...[['finished', 'cancelled'], succeeded, ['failed'], failed],
      ...[await firstYoung(db, 'runs', Math.max(succeeded, failed)), failed, succeeded, succeeded],
      ...[await firstYoung(db, 'runs', longest), longest, await firstYoung(db, 'workers', longest), seen],
    ],
  );
  const isAny = (kind: Exclude<keyof Prunable, 'usedBytes'>): boolean => (row?.[kind] ?? 0) > 0;
  return {
    jobs: isAny('jobs'),
    runs: isAny('runs'),
    events: isAny('events'),
    workers: isAny('workers'),
    machines: isAny('machines'),
    usedBytes: await usedBytes(db),
  };
}

async function numbersOf(db: ServerStatements, text: string, values: readonly unknown[]): Promise<number[]> {
  const rows = await db.all<{ id: number }>(`${text} ${unlessTaken}`, values);
  return rows.map(({ id }) => id);
}

async function removeJobs(db: ServerStatements, where: string, values: readonly unknown[]): Promise<PruneStep> {
  const ids = await numbersOf(db, `select id from jobs where ${where}`, values);
  return { deleted: ids.length, outputFiles: await deleteJobsOnServer(db, ids) };
}

interface RunWithFile {
  readonly id: number;
  readonly output_file: string | null;
}

async function removeRuns(db: ServerStatements, runs: readonly RunWithFile[]): Promise<PruneStep> {
  if (runs.length === 0) return nothing;
  const ids = runs.map(({ id }) => id);
  await keepCounted(db, { runs: db.dialect.isIn('runs.id') }, [ids]);
  const deleted = await db.run(`delete from runs where ${db.dialect.isIn('id')}`, [ids]);
  return { deleted, outputFiles: runs.flatMap(({ output_file }) => output_file ?? []) };
}

/**
 * Rows are numbered in the order of their instants, nearly, so that those behind the first young one need no look.
 * One that is ahead of the newest was written while the clock was, and says nothing.
 */
async function firstYoung(db: ServerStatements, table: 'runs' | 'workers', before: number): Promise<number> {
  const young = await db.first<{ id: number }>(
    `select id from ${table} where started_at between ? and (select started_at from ${table} order by id desc limit 1)
     order by id limit 1`,
    [before],
  );
  return young?.id ?? Number.MAX_SAFE_INTEGER;
}

async function removeOldRuns(
  db: ServerStatements,
  { succeeded, failed }: Pick<Expiry, 'succeeded' | 'failed'>,
  limit: number,
): Promise<PruneStep> {
  const old = await db.all<RunWithFile>(
    `select runs.id, output_file from runs where ${areOld(db)} order by runs.id limit ? ${unlessTaken}`,
    [await firstYoung(db, 'runs', Math.max(succeeded, failed)), failed, succeeded, limit],
  );
  return await removeRuns(db, old);
}

async function removeWorkers(db: ServerStatements, before: number, limit: number): Promise<PruneStep> {
  const old = await db.all<{ id: number }>(`select workers.id from ${workersWithoutRuns} order by workers.id limit ?`, [
    await firstYoung(db, 'runs', before),
    before,
    await firstYoung(db, 'workers', before),
    limit,
  ]);
  if (old.length === 0) return nothing;
  const ids = old.map(({ id }) => id);
  return { ...nothing, deleted: await db.run(`delete from workers where ${db.dialect.isIn('id')}`, [ids]) };
}

/** By their runs, as those are numbered in their order; then what has ended without any. */
async function removeOldest(db: ServerStatements, limit: number): Promise<PruneStep> {
  const oldest = await db.all<RunWithFile & { job_id: number; goes_whole: number }>(
    `select runs.id, runs.output_file, runs.job_id, case when jobs.tier is null and jobs.finished_at is not null
       and ${isReported} then 1 else 0 end as goes_whole
     from runs join jobs on jobs.id = runs.job_id where outcome <> 'running' order by runs.id limit ? ${unlessTaken}`,
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
  const outputFiles = [...removed.outputFiles, ...(await deleteJobsOnServer(db, jobs))];
  return { deleted: removed.deleted + jobs.length, outputFiles };
}

/** The bytes of the tables, and of the output files on this machine. */
async function usedBytes(db: ServerStatements): Promise<number> {
  const tables = db.dialect.name === 'postgres' ? postgresBytes : mysqlBytes;
  const found = await db.first<{ bytes: number }>(
    `select (${tables}) + (select coalesce(sum(output_file_bytes), 0) from runs
       join workers on workers.id = runs.worker_id join hosts on hosts.id = workers.host_id
       where output_file is not null and host = ?) as bytes`,
    [machineName()],
  );
  return Math.round(found?.bytes ?? 0);
}

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
