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
import type { Sync } from '../../../shared/areas.ts';
import {
  addedText,
  askPage,
  failedPart,
  type MeasuredPart,
  uncountedPart,
  wholePart,
  withKey,
} from '../../../shared/measured.ts';
import { isLong, tables } from '../../../tables.ts';
import type { SqliteStatements } from '../../session.ts';
import { counting, handlerOf } from '../counted.ts';

const HOUR_MS = 3_600_000;

export function sqliteMetrics(db: SqliteStatements): Sync<MetricStore> {
  return { ...progress(db), ...happened(db), ...kept(db) };
}

type Part<Names extends keyof MetricStore> = Pick<Sync<MetricStore>, Names>;

/** How far all is counted. */
function progress(db: SqliteStatements): Part<'lock' | 'countedUntil' | 'setCountedUntil' | 'nextAt'> {
  return {
    // SQLite has one writing transaction at a time.
    lock: () => {},
    countedUntil: () =>
      db.first<{ until: number }>(`select done_at as until from chores where name = 'hours'`)?.until ?? null,
    setCountedUntil: (at) => {
      db.run(`insert or replace into chores (name, done_at) values ('hours', ?)`, [at]);
      db.run('update uncounted set counts_start = 0 where counts_start = 1 and started_at < ?', [at]);
      db.run('update uncounted set counts_end = 0 where counts_end = 1 and finished_at < ?', [at]);
      db.run('delete from uncounted where counts_start = 0 and counts_end = 0');
    },
    nextAt: (from) => db.first<{ at: number | null }>(nextText, Array(7).fill(from))?.at ?? null,
  };
}

/** One step into an index for each, where `distinct` would read all of it. The last one is null: the queue. */
const tiers = `with recursive tiers (tier) as (
  select min(tier) from workers
  union all
  select (select min(tier) from workers where tier > tiers.tier) from tiers where tier is not null)`;

const nextText = `${tiers} select min(at) as at from (
  select (select min(started_at) from runs where script_id = scripts.id and started_at >= ?) as at from scripts
  union all select min(finished_at) from runs indexed by runs_long where finished_at >= ? and ${isLong}
  union all select min(created_at) from jobs indexed by jobs_added where tier is null and created_at >= ?
  union all select min(at) from events where at >= ?
  union all select min(started_at) from uncounted where counts_start = 1 and started_at >= ?
  union all select min(finished_at) from uncounted where counts_end = 1 and finished_at >= ?
  union all select (select min(started_at) from workers where workers.tier is tiers.tier and started_at >= ?)
    from tiers)`;

const runsByScript = `scripts cross join runs indexed by runs_by_script on runs.script_id = scripts.id
  cross join jobs on jobs.id = runs.job_id`;
const runsByNumber = 'cross join scripts on scripts.id = runs.script_id cross join jobs on jobs.id = runs.job_id';

/** Those that are long, or run on, and so stand in the index by their script further away. */
const isFarAway = 'not (runs.started_at >= ? and runs.started_at < ?)';

const both = ['1', '1'] as const;

function happened(db: SqliteStatements): Part<'measured' | 'added' | 'uncounted' | 'workers' | 'waiting'> {
  const readPage = (parts: readonly MeasuredPart[], after: PagePlace | null, limit: number): MeasuredPage => {
    const { text, values, toPage } = askPage(parts, after, limit);
    return toPage(db.all<MeasuredRow>(text, values));
  };
  return {
    measured: (span, after, limit) => readPage(measuredParts(span), after, limit),
    added: ({ from, until }) => db.all<AddedJobs>(addedText(handlerOf), [from, until]),
    uncounted: (before, after, limit) => readPage([uncountedPart(before)], after, limit),
    workers: (span) => workersIn(db, span),
    waiting: (at) =>
      db.all<WaitingJobs>(
        `select 'queue/' || ${handlerOf('name')} as name, count(*) as jobs, min(run_at) as since from (
           select name, run_at from jobs indexed by jobs_ready_by_name where ready = 1 and run_at <= ?
           union all select name, run_at from jobs indexed by jobs_blocked where ready = 2 and run_at <= ?
           union all select name, run_at from jobs indexed by jobs_delayed where ready = 0 and run_at <= ?)
         group by 1`,
        [at, at, at],
      ),
  };
}

const nearRuns = withKey(
  counting.measuredRuns(
    `${runsByScript} where scripts.id >= ? and runs.started_at >= case scripts.id when ? then ? else ? end
       and (scripts.id > ? or runs.started_at > ? or runs.id > ?)
       and runs.started_at < ? and coalesce(runs.finished_at, ?) >= ?`,
    both,
  ),
  'runs.script_id as script_id, runs.id as id',
);

/** The place of a run in the index by its script. */
type OfScript = MeasuredRow & { readonly script_id: number };

/**
 * Reads runs that began in the span, or up to an hour before it, by script; and the few longer ones by an index of
 * their own.
 */
function measuredParts({ from, until }: Span): readonly MeasuredPart[] {
  const near = [from - HOUR_MS, until];
  return [
    {
      text: (limit) => `${nearRuns} order by scripts.id, runs.started_at, runs.id limit ${limit}`,
      values: ([script, at, id]) => [...[script, script, at, from - HOUR_MS, script, at, id], ...[until, until, from]],
      first: [0, from - HOUR_MS, 0],
      keyOf: (row) => [(row as OfScript).script_id, row.started_at as number, row.id],
    },
    {
      text: () =>
        counting.measuredRuns(
          `(select * from runs indexed by runs_long where finished_at >= ? and ${isLong}) as runs ${runsByNumber}
         where (runs.started_at < ? or runs.finished_at < ?) and ${isFarAway}`,
          both,
        ),
      values: () => [from, until, until, ...near],
      ...wholePart,
    },
    {
      text: () =>
        counting.measuredRuns(
          `runs indexed by runs_running ${runsByNumber} where outcome = 'running' and runs.started_at < ?`,
          both,
        ),
      values: () => [from - HOUR_MS],
      ...wholePart,
    },
    failedPart(counting.measuredEvents, { from, until }),
  ];
}

/** By tier, as there are few. */
function workersIn(db: SqliteStatements, { from, until }: Span): PresentWorker[] {
  const columns = 'id, kind, tier, state, started_at, finished_at';
  const found = db.all<{ tier: string | null }>(`${tiers} select tier from tiers`);
  const near = found.flatMap(({ tier }) =>
    db.all<PresentWorker>(
      `select ${columns} from workers indexed by workers_by_tier
       where tier is ? and started_at >= ? and started_at < ? and (finished_at is null or finished_at >= ?)`,
      [tier, from - HOUR_MS, until, from],
    ),
  );
  const far = db.all<PresentWorker>(
    `select ${columns} from workers indexed by workers_long
       where finished_at >= ? and ${isLong} and started_at < ?
     union all select ${columns} from workers indexed by workers_running
       where state = 'running' and started_at < ?`,
    [from, from - HOUR_MS, from - HOUR_MS],
  );
  return [...near, ...far];
}

const scriptColumns = columnsOf(tables.metrics, ['script_id', 'hour']);
const workerColumns = columnsOf(tables.worker_metrics);

const replaceInto = (table: string, columns: readonly string[]): string =>
  `insert or replace into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`;

/** Figures that were counted. */
function kept(db: SqliteStatements): Part<'read' | 'readWorkers' | 'write' | 'prune'> {
  return {
    read: ({ from, until }, names) =>
      db.all<ScriptMetrics>(
        `select name, hour, ${scriptColumns.join(', ')}
         from scripts cross join metrics on metrics.script_id = scripts.id
         where hour >= ? and hour < ? and (? is null or name in (select value from json_each(?)))`,
        [from, until, ...Array(2).fill(names === null ? null : JSON.stringify(names))],
      ),
    readWorkers: ({ from, until }) =>
      db.all<WorkerMetrics>(`select ${workerColumns.join(', ')} from worker_metrics where hour >= ? and hour < ?`, [
        from,
        until,
      ]),
    write: (scripts, workers) => {
      for (const row of scripts) {
        db.run('insert or ignore into scripts (name) values (?)', [row.name]);
        const { id } = db.first<{ id: number }>('select id from scripts where name = ?', [row.name]) as { id: number };
        const values = [id, row.hour, ...scriptColumns.map((column) => row[column])];
        db.run(replaceInto('metrics', ['script_id', 'hour', ...scriptColumns]), values);
      }
      for (const row of workers) {
        db.run(
          replaceInto('worker_metrics', workerColumns),
          workerColumns.map((column) => row[column]),
        );
      }
    },
    prune: (before, limit) =>
      db.run(
        `delete from metrics where (script_id, hour) in (
           select script_id, hour from scripts cross join metrics on metrics.script_id = scripts.id and hour < ? limit ?)`,
        [before, limit],
      ) + db.run('delete from worker_metrics where hour < ?', [before]),
  };
}
