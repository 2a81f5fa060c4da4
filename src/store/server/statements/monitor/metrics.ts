import { columnsOf } from '../../../columns.ts';
import type {
  AddedJobs,
  MeasuredPage,
  MeasuredRow,
  MetricStore,
  PagePlace,
  PresentWorker,
  ScriptMetrics,
  Span,
  WaitingJobs,
  WorkerMetrics,
} from '../../../contract/metrics.ts';
import {
  addedText,
  askPage,
  failedPart,
  type MeasuredPart,
  uncountedPart,
  wholePart,
  withKey,
} from '../../../shared/measured.ts';
import { type Dialect, marks, rowMarks } from '../../../shared/sql/dialect.ts';
import { withTiers } from '../../../shared/sql/tiers.ts';
import { tables } from '../../../tables.ts';
import type { ServerStatements } from '../../session.ts';
import { countingOf, lockHours } from '../counted.ts';

export function serverMetrics(db: ServerStatements): MetricStore {
  return { ...progress(db), ...happened(db), ...kept(db) };
}

/** How far all is counted. */
function progress(db: ServerStatements): Pick<MetricStore, 'lock' | 'countedUntil' | 'setCountedUntil' | 'nextAt'> {
  return {
    lock: () => lockHours(db),
    countedUntil: async () =>
      (await db.first<{ until: number }>(`select done_at as until from chores where name = 'hours'`))?.until ?? null,
    setCountedUntil: async (at) => {
      await replaceRows(db, { table: 'chores', key: ['name'], columns: ['done_at'] }, [['hours', at]]);
      await db.run('update uncounted set counts_start = 0 where counts_start = 1 and started_at < ?', [at]);
      await db.run('update uncounted set counts_end = 0 where counts_end = 1 and finished_at < ?', [at]);
      await db.run('delete from uncounted where counts_start = 0 and counts_end = 0');
    },
    nextAt: async (from) =>
      (
        await db.first<{ at: number | null }>(
          `${withTiers(db.dialect)} ${nextText}`,
          Array(nextText.split('?').length - 1).fill(from),
        )
      )?.at ?? null,
  };
}

const nextText = `select min(at) as at from (
  select (select min(started_at) from runs where script_id = scripts.id and started_at >= ?) as at from scripts
  union all select min(finished_at) from runs where finished_at >= ?
  union all select min(created_at) from jobs where tier is null and created_at >= ?
  union all select min(at) from events where at >= ?
  union all select min(started_at) from uncounted where counts_start = 1 and started_at >= ?
  union all select min(finished_at) from uncounted where counts_end = 1 and finished_at >= ?
  union all select min(started_at) from workers where tier is null and started_at >= ?
  union all select (select min(started_at) from workers where workers.tier = tiers.tier and started_at >= ?)
    from tiers where tiers.tier is not null) as found`;

const joined = 'join scripts on scripts.id = runs.script_id join jobs on jobs.id = runs.job_id';

const all = ['true', 'true'] as const;

function happened(db: ServerStatements): Pick<MetricStore, 'measured' | 'added' | 'uncounted' | 'workers' | 'waiting'> {
  const { dialect } = db;
  const readPage = async (
    parts: readonly MeasuredPart[],
    after: PagePlace | null,
    limit: number,
  ): Promise<MeasuredPage> => {
    const { text, values, toPage } = askPage(parts, after, limit);
    return toPage(await db.all<MeasuredRow>(text, values));
  };
  return {
    measured: (span, after, limit) => readPage(measuredParts(dialect, span), after, limit),
    added: ({ from, until }) => db.all<AddedJobs>(addedText(dialect.handlerOf), [from, until]),
    uncounted: (before, after, limit) => readPage([uncountedPart(before)], after, limit),
    workers: ({ from, until }) =>
      db.all<PresentWorker>(
        `select ${presentColumns} from workers where state in ('finished', 'crashed', 'skipped')
           and finished_at >= ? and started_at < ?
         union all select ${presentColumns} from workers where state = 'running' and started_at < ?`,
        [from, until, until],
      ),
    waiting: (at) =>
      db.all<WaitingJobs>(
        `select 'queue/' || handler as name, sum(jobs) as jobs, min(since) as since from (
           select ${dialect.handlerOf('name')} as handler, count(*) as jobs, min(run_at) as since
             from jobs where ready = 1 and run_at <= ? group by 1
           union all select ${dialect.handlerOf('name')}, count(*), min(run_at)
             from jobs where ready = 2 and run_at <= ? group by 1
           union all select ${dialect.handlerOf('name')}, count(*), min(run_at)
             from jobs where ready = 0 and run_at <= ? group by 1) as waiting
         group by handler`,
        [at, at, at],
      ),
  };
}

/** By their ends, as an hour is closed soon after its own: few runs have ended since. Those that go on are few. */
function measuredParts(dialect: Dialect, { from, until }: Span): readonly MeasuredPart[] {
  const { measuredRuns, measuredEvents } = countingOf(dialect);
  // Joined only then: a server that begins with all jobs sorts all runs.
  const some = (limit: number): string => `(select * from runs where finished_at >= ? and (finished_at > ? or id > ?)
    and (started_at < ? or finished_at < ?) order by finished_at, id limit ${limit}) as runs`;
  return [
    {
      text: (limit) =>
        withKey(measuredRuns(`${some(limit)} ${joined} order by runs.finished_at, runs.id`, all), 'runs.id as id'),
      values: ([at, id]) => [at, at, id, until, until],
      first: [from, 0],
      keyOf: ({ finished_at, id }) => [finished_at as number, id],
    },
    {
      text: () => measuredRuns(`runs ${joined} where runs.finished_at is null and runs.started_at < ?`, all),
      values: () => [until],
      ...wholePart,
    },
    failedPart(measuredEvents, { from, until }),
  ];
}

const presentColumns = 'id, kind, tier, state, started_at, finished_at';

const scriptColumns = columnsOf(tables.metrics, ['script_id', 'hour']);
const workerKey = tables.worker_metrics.key;
const workerColumns = columnsOf(tables.worker_metrics, workerKey);

const namesOf = (columns: readonly string[]): string => columns.map((column) => `"${column}"`).join(', ');

interface Columns {
  readonly table: string;
  readonly key: readonly string[];
  readonly columns: readonly string[];
}

/** Most rows in one statement: PostgreSQL takes 65,535 values, and the widest row has 26. */
const ROWS_AT_ONCE = 500;

/** In place of those with the same key; the values in the order of key and columns. */
async function replaceRows(
  db: ServerStatements,
  { table, key, columns }: Columns,
  rows: readonly (readonly unknown[])[],
): Promise<void> {
  const all = [...key, ...columns];
  for (let first = 0; first < rows.length; first += ROWS_AT_ONCE) {
    const some = rows.slice(first, first + ROWS_AT_ONCE);
    const insert = `insert into ${table} (${namesOf(all)}) values ${rowMarks(all.length, some.length)}`;
    const replaced = columns.map((column) => [column, `new.${column}`] as const);
    await db.run(db.dialect.upsert(insert, key, replaced), some.flat());
  }
}

/** Figures that were counted. */
function kept(db: ServerStatements): Pick<MetricStore, 'read' | 'readWorkers' | 'write' | 'prune'> {
  return {
    read: ({ from, until }, names) =>
      db.all<ScriptMetrics>(
        `select scripts.name, "hour", ${namesOf(scriptColumns)}
         from scripts join metrics on metrics.script_id = scripts.id
         where "hour" >= ? and "hour" < ?${names === null ? '' : ` and scripts.name in ${marks(names)}`}`,
        [from, until, ...(names ?? [])],
      ),
    readWorkers: ({ from, until }) =>
      db.all<WorkerMetrics>(
        `select ${namesOf([...workerKey, ...workerColumns])} from worker_metrics where "hour" >= ? and "hour" < ?`,
        [from, until],
      ),
    write: async (scripts, workers) => {
      const ids = await numbersOf(
        db,
        scripts.map(({ name }) => name),
      );
      const rows = scripts.map((row) => [ids.get(row.name), row.hour, ...scriptColumns.map((column) => row[column])]);
      await replaceRows(db, { table: 'metrics', key: ['script_id', 'hour'], columns: scriptColumns }, rows);
      const columns = [...workerKey, ...workerColumns];
      const workerRows = workers.map((row) => columns.map((column) => row[column]));
      await replaceRows(db, { table: 'worker_metrics', key: workerKey, columns: workerColumns }, workerRows);
    },
    prune: async (before, limit) => (await pruneScripts(db, before, limit)) + (await pruneWorkers(db, before)),
  };
}

/** Numbers of scripts by name; those that were never heard of get one. */
export async function numbersOf(db: ServerStatements, names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const wanted = [...new Set(names)].sort();
  if (wanted.length === 0) return new Map();
  const find = async () =>
    new Map(
      (
        await db.all<{ id: number; name: string }>(
          `select id, name from scripts where name in ${marks(wanted)}`,
          wanted,
        )
      ).map(({ id, name }) => [name, id]),
    );
  const found = await find();
  const missing = wanted.filter((name) => !found.has(name));
  if (missing.length === 0) return found;
  await replaceRows(
    db,
    { table: 'scripts', key: ['name'], columns: [] },
    missing.map((name) => [name]),
  );
  return await find();
}

/** First those that have something old: of most the oldest hour is new, which one step into the index tells. */
async function pruneScripts(db: ServerStatements, before: number, limit: number): Promise<number> {
  const old = await db.all<{ id: number }>(
    `select id from scripts where (select "hour" from metrics where script_id = scripts.id
       order by script_id, "hour" limit 1) < ? limit ?`,
    [before, limit],
  );
  if (old.length === 0) return 0;
  return await db.run(
    `delete from metrics where (script_id, "hour") in (select script_id, "hour" from (
       select script_id, "hour" from metrics where script_id in ${marks(old)} and "hour" < ?
       order by script_id, "hour" limit ?) as old)`,
    [...old.map(({ id }) => id), before, limit],
  );
}

const pruneWorkers = (db: ServerStatements, before: number): Promise<number> =>
  db.run('delete from worker_metrics where "hour" < ?', [before]);
