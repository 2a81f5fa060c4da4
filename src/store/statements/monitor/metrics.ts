import { HOUR_MS } from '../../../system/base/values.ts';
import { columnsOf } from '../../columns.ts';
import type { ActivityLog, WorkerRow } from '../../schema.ts';
import { type Dialect, withTiers } from '../../shared/sql/dialect.ts';
import { putRows, quoted } from '../../shared/sql/rows.ts';
import { lock, type Statements } from '../../shared/sql/statements.ts';
import { isLong, tables } from '../../tables.ts';
import type { Outcome } from '../../words.ts';
import { countingOf } from '../counted.ts';

/** A run, or what counts like one, as far as metrics are made of it. */
export type MeasuredRow = ActivityLog['uncounted'];

/** Rows that come one page after the other, as there may be a million. */
export interface MeasuredPage {
  readonly rows: readonly MeasuredRow[];
  /** By which the next page is asked for; null: there is none. */
  readonly next: PagePlace | null;
}

/** The end of a page; only the store knows its meaning. */
export type PagePlace = readonly number[];

/** From the first instant on, before the second one. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** A worker that was there in an hour. */
export type PresentWorker = Pick<WorkerRow, 'id' | 'kind' | 'tier' | 'state' | 'started_at' | 'finished_at'>;

/** The figures of a script or handler: `hourly/clean-tmp`, `queue/mail/welcome`. */
export type ScriptMetrics = Omit<ActivityLog['metrics'], 'script_id'> & { readonly name: string };

const histograms = ['run_histogram', 'service_histogram'] as const;

type Histogram = (typeof histograms)[number];

/** The same as they are read: histograms as hexadecimal digits. */
export type KeptMetrics = Omit<ScriptMetrics, Histogram> & Readonly<Record<Histogram, string | null>>;

export type WorkerMetrics = ActivityLog['worker_metrics'];

/** Jobs of a handler that are due and wait. */
export interface WaitingJobs {
  readonly name: string;
  readonly jobs: number;
  /** When the first of them was due. */
  readonly since: number;
}

/** Jobs of a handler that were added in an hour. */
export interface AddedJobs {
  /** With `queue/` before it. */
  readonly name: string;
  /** When the hour begins. */
  readonly hour: number;
  readonly jobs: number;
}

/** How often something has happened to a script since the log began, and how long that took. */
export interface CounterRow {
  readonly name: string;
  /** `added`: jobs of the queue; else runs that ended so. */
  readonly what: Outcome | 'added';
  readonly times: number;
  /** How many of them are known to have taken how long, and that time. */
  readonly timed: number;
  readonly run_ms: number;
  readonly cpu_ms: number;
}

export function metricsOf(db: Statements) {
  return { ...progress(db), ...happened(db), ...kept(db) };
}

/** How far all is counted. */
function progress(db: Statements) {
  return {
    /**
     * Until the transaction ends nobody else counts, or writes rows of hours that may be counted. Call it first in the
     * transaction.
     */
    lock: () => lock(db, 'hours'),
    /** Everything before this time is counted; null: nothing is. */
    countedUntil: async () =>
      (await db.first<{ until: number }>(`select done_at as until from chores where name = 'hours'`))?.until ?? null,
    /** Another text once an hour was counted, or counted again. */
    version: async () => {
      const text = `select name, done_at as at from chores where name in ('hours', 'hours again') order by name`;
      return (await db.all<{ at: number }>(text)).map(({ at }) => at).join('/');
    },
    /**
     * Sets the time up to which all is counted, for good: counts whose rows are gone are deleted.
     *
     * @param againAt the time now, if hours before were counted again
     */
    setCountedUntil: async (at: number, againAt?: number) => {
      const done = [['hours', at], ...(againAt === undefined ? [] : [['hours again', againAt]])];
      await putRows(db, 'chores', ['name', 'done_at'], done, { key: ['name'], set: ['done_at'] });
      await db.run('update uncounted set counts_start = 0 where counts_start = 1 and started_at < ?', [at]);
      await db.run('update uncounted set counts_end = 0 where counts_end = 1 and finished_at < ?', [at]);
      await db.run('delete from uncounted where counts_start = 0 and counts_end = 0');
    },
    /** The first instant from this one on at which anything began, ended or was added; null: none. */
    nextAt: async (from: number) => {
      const text = nextText(db.dialect);
      return (await db.first<{ at: number | null }>(text, Array(text.split('?').length - 1).fill(from)))?.at ?? null;
    },
  };
}

function nextText(dialect: Dialect): string {
  const { byIndex, name } = dialect;
  // Runs that are not long began in the hour of their end, or in the one before.
  const ended = name === 'sqlite' ? `runs indexed by runs_long where ${isLong}` : 'runs where true';
  return `${withTiers(dialect)} select min(at) as at from (
    select (select min(started_at) from runs where script_id = scripts.id and started_at >= ?) as at from scripts
    union all select min(finished_at) from ${ended} and finished_at >= ?
    union all select min(created_at) from ${byIndex('jobs', { sqlite: 'jobs_added' })}
      where tier is null and created_at >= ?
    union all select min(at) from events where at >= ?
    union all select min(started_at) from uncounted where counts_start = 1 and started_at >= ?
    union all select min(finished_at) from uncounted where counts_end = 1 and finished_at >= ?
    union all select min(started_at) from workers where tier is null and started_at >= ?
    union all select (select min(started_at) from workers where workers.tier = tiers.tier and started_at >= ?)
      from tiers where tiers.tier is not null) as found`;
}

function happened(db: Statements) {
  const { dialect } = db;
  const partsOf = dialect.name === 'sqlite' ? partsByScript : partsByEnd;
  const readPage = async (
    parts: readonly MeasuredPart[],
    after: PagePlace | null,
    limit: number,
  ): Promise<MeasuredPage> => {
    const { text, values, toPage } = askPage(parts, after, limit);
    return toPage(await db.all<MeasuredRow>(text, values));
  };
  return {
    /** Runs that were active or ended in the span, and jobs that failed without a run; about `limit` at once. */
    measured: (span: Span, after: PagePlace | null, limit: number) => readPage(partsOf(dialect, span), after, limit),
    /** By handler and hour. */
    added: ({ from, until }: Span) => db.all<AddedJobs>(addedText(dialect.handlerOf), [from, until]),
    /** The beginnings and ends before this instant that no row tells any more, or that came too late. */
    uncounted: (before: number, after: PagePlace | null, limit: number) =>
      readPage([uncountedPart(before)], after, limit),
    /** Workers that were there, and calls that were skipped. */
    workers: (span: Span) => (dialect.name === 'sqlite' ? workersByTier(db, span) : workersByEnd(db, span)),
    /** Jobs that are due and waiting now, among those that were due at that instant. */
    waiting: (at: number) => waiting(db, at),
  };
}

/** Jobs are counted by handler in each of three small indexes. */
function waiting(db: Statements, at: number): Promise<WaitingJobs[]> {
  const { handlerOf, byIndex } = db.dialect;
  const part = (ready: number, index: string): string =>
    `select ${handlerOf('name')} as handler, count(*) as jobs, min(run_at) as since
     from ${byIndex('jobs', { sqlite: index })} where ready = ${ready} and run_at <= ? group by 1`;
  const parts = [part(1, 'jobs_ready_by_name'), part(2, 'jobs_blocked'), part(0, 'jobs_delayed')];
  return db.all<WaitingJobs>(
    `select 'queue/' || handler as name, sum(jobs) as jobs, min(since) as since
     from (${parts.join(' union all ')}) as waiting group by handler`,
    [at, at, at],
  );
}

/** A statement that gives some of the rows that are asked for, in an order of its own. */
interface MeasuredPart {
  /** The limit stands in it: a server that does not know it when it plans reads whole tables. */
  readonly text: (limit: number) => string;
  readonly values: (key: readonly number[]) => readonly unknown[];
  /** The key that comes before any row's. */
  readonly first: readonly number[];
  /** The key that rows are ordered by, after which the next page begins; null: there are few rows, and one page. */
  readonly keyOf: ((row: MeasuredRow) => readonly number[]) | null;
}

/** The statement of a page, one part after the other, and what is made of its rows. */
function askPage(parts: readonly MeasuredPart[], after: PagePlace | null, limit: number) {
  const [index = 0, ...key] = after ?? [];
  const { text, values, first, keyOf } = parts[index] as MeasuredPart;
  const toPage = (rows: readonly MeasuredRow[]): MeasuredPage => {
    const last = rows.at(-1);
    if (keyOf !== null && last !== undefined && rows.length >= limit) return { rows, next: [index, ...keyOf(last)] };
    return { rows, next: index + 1 < parts.length ? [index + 1] : null };
  };
  return { text: text(limit), values: values(key.length > 0 ? key : first), toPage };
}

/** A part that never has many rows, and so is one page. */
const wholePart = { first: [], keyOf: null } satisfies Partial<MeasuredPart>;

/** A statement with further columns, by which its rows are ordered. */
const withKey = (text: string, columns: string): string => text.replace('select', `select ${columns},`);

/** Jobs that failed without a run. */
function failedPart(measuredEvents: (events: string) => string, { from, until }: Span): MeasuredPart {
  const isNext = 'events.at >= ? and (events.at > ? or events.id > ?) and events.at < ?';
  return {
    text: (limit) =>
      `${withKey(measuredEvents(isNext), 'events.id as id')} order by events.at, events.id limit ${limit}`,
    values: ([at, id]) => [at, at, id, until],
    first: [from, 0],
    keyOf: ({ finished_at, id }) => [finished_at as number, id],
  };
}

/** Figures whose rows are gone, or came too late. */
const uncountedPart = (before: number): MeasuredPart => ({
  text: (limit) => `select * from uncounted where id > ?
    and ((counts_start = 1 and started_at < ?) or (counts_end = 1 and finished_at < ?)) order by id limit ${limit}`,
  values: ([id]) => [id, before, before],
  first: [0],
  keyOf: ({ id }) => [id],
});

/** How many jobs were added in each hour of some time, which is the two values. */
const addedText = (handlerOf: (name: string) => string): string =>
  `select 'queue/' || ${handlerOf('name')} as name,
     created_at - ((created_at % ${HOUR_MS}) + ${HOUR_MS}) % ${HOUR_MS} as "hour", count(*) as jobs
   from jobs where tier is null and created_at >= ? and created_at < ? group by 1, 2`;

const both = ['true', 'true'] as const;

const toScripts = ({ join }: Dialect): string =>
  `${join} scripts on scripts.id = runs.script_id ${join} jobs on jobs.id = runs.job_id`;

/** The place of a run in the index by its script. */
type OfScript = MeasuredRow & { readonly script_id: number };

/**
 * Reads runs that began in the span, or up to an hour before it, by script; and the few longer ones by an index of
 * their own. SQLite has no index by their ends.
 */
function partsByScript(dialect: Dialect, { from, until }: Span): readonly MeasuredPart[] {
  const { measuredRuns, measuredEvents } = countingOf(dialect);
  const joined = toScripts(dialect);
  const near = withKey(
    measuredRuns(
      `scripts cross join runs indexed by runs_by_script on runs.script_id = scripts.id
       cross join jobs on jobs.id = runs.job_id
       where scripts.id >= ? and runs.started_at >= case scripts.id when ? then ? else ? end
         and (scripts.id > ? or runs.started_at > ? or runs.id > ?)
         and runs.started_at < ? and coalesce(runs.finished_at, ?) >= ?`,
      both,
    ),
    'runs.script_id as script_id, runs.id as id',
  );
  // Those that are long, or run on, and so stand in the index by their script further away.
  const isFarAway = 'not (runs.started_at >= ? and runs.started_at < ?)';
  return [
    {
      text: (limit) => `${near} order by scripts.id, runs.started_at, runs.id limit ${limit}`,
      values: ([script, at, id]) => [...[script, script, at, from - HOUR_MS, script, at, id], ...[until, until, from]],
      first: [0, from - HOUR_MS, 0],
      keyOf: (row) => [(row as OfScript).script_id, row.started_at as number, row.id],
    },
    {
      text: () =>
        measuredRuns(
          `(select * from runs indexed by runs_long where finished_at >= ? and ${isLong}) as runs ${joined}
           where (runs.started_at < ? or runs.finished_at < ?) and ${isFarAway}`,
          both,
        ),
      values: () => [from, until, until, from - HOUR_MS, until],
      ...wholePart,
    },
    {
      text: () =>
        measuredRuns(`runs indexed by runs_running ${joined} where outcome = 'running' and runs.started_at < ?`, both),
      values: () => [from - HOUR_MS],
      ...wholePart,
    },
    failedPart(measuredEvents, { from, until }),
  ];
}

/** By their ends, as an hour is closed soon after its own: few runs have ended since. Those that go on are few. */
function partsByEnd(dialect: Dialect, { from, until }: Span): readonly MeasuredPart[] {
  const { measuredRuns, measuredEvents } = countingOf(dialect);
  const joined = toScripts(dialect);
  // Joined only then: a server that begins with all jobs sorts all runs.
  const some = (limit: number): string => `(select * from runs where finished_at >= ? and (finished_at > ? or id > ?)
    and (started_at < ? or finished_at < ?) order by finished_at, id limit ${limit}) as runs`;
  return [
    {
      text: (limit) =>
        withKey(measuredRuns(`${some(limit)} ${joined} order by runs.finished_at, runs.id`, both), 'runs.id as id'),
      values: ([at, id]) => [at, at, id, until, until],
      first: [from, 0],
      keyOf: ({ finished_at, id }) => [finished_at as number, id],
    },
    {
      text: () => measuredRuns(`runs ${joined} where runs.finished_at is null and runs.started_at < ?`, both),
      values: () => [until],
      ...wholePart,
    },
    failedPart(measuredEvents, { from, until }),
  ];
}

const presentColumns = 'id, kind, tier, state, started_at, finished_at';

function workersByEnd(db: Statements, { from, until }: Span): Promise<PresentWorker[]> {
  return db.all<PresentWorker>(
    `select ${presentColumns} from workers where state in ('finished', 'crashed', 'skipped')
       and finished_at >= ? and started_at < ?
     union all select ${presentColumns} from workers where state = 'running' and started_at < ?`,
    [from, until, until],
  );
}

/** By tier, as there are few, the last of which is null: the queue. SQLite has no index by their ends, but one of those that were long. */
async function workersByTier(db: Statements, { from, until }: Span): Promise<PresentWorker[]> {
  const found = await db.all<{ tier: string | null }>(`${withTiers(db.dialect)} select tier from tiers`);
  const near: PresentWorker[] = [];
  for (const { tier } of found) {
    const ofTier = await db.all<PresentWorker>(
      `select ${presentColumns} from workers indexed by workers_by_tier
       where tier is ? and started_at >= ? and started_at < ? and (finished_at is null or finished_at >= ?)`,
      [tier, from - HOUR_MS, until, from],
    );
    near.push(...ofTier);
  }
  const far = await db.all<PresentWorker>(
    `select ${presentColumns} from workers indexed by workers_long
       where finished_at >= ? and ${isLong} and started_at < ?
     union all select ${presentColumns} from workers indexed by workers_running
       where state = 'running' and started_at < ?`,
    [from, from - HOUR_MS, from - HOUR_MS],
  );
  return [...near, ...far];
}

const scriptColumns = columnsOf(tables.metrics, ['script_id', 'hour']);
const workerKey = tables.worker_metrics.key;
const workerColumns = columnsOf(tables.worker_metrics, workerKey);

const sums = ['times', 'timed', 'run_ms', 'cpu_ms'] as const;

const namesOf = (columns: readonly string[]): string => columns.map(quoted).join(', ');

/** Figures that were counted. */
function kept(db: Statements) {
  const isHistogram = (column: string): boolean => histograms.some((each) => each === column);
  const asRead = (column: string): string =>
    isHistogram(column) ? `${db.dialect.hex(quoted(column))} as ${quoted(column)}` : quoted(column);
  return {
    /** Hours that begin in this span, of these scripts or of all; by script, the oldest first. */
    read: ({ from, until }: Span, names: readonly string[] | null) =>
      db.all<KeptMetrics>(
        `select scripts.name, "hour", ${scriptColumns.map(asRead).join(', ')}
         from scripts ${db.dialect.join} metrics on metrics.script_id = scripts.id
         where "hour" >= ? and "hour" < ?${names === null ? '' : ` and ${db.dialect.isIn('scripts.name')}`}`,
        [from, until, ...(names === null ? [] : [names])],
      ),
    readWorkers: ({ from, until }: Span) =>
      db.all<WorkerMetrics>(
        `select ${namesOf([...workerKey, ...workerColumns])} from worker_metrics where "hour" >= ? and "hour" < ?`,
        [from, until],
      ),
    /** Replaces the earlier figures of the same hours. */
    write: async (scripts: readonly ScriptMetrics[], workers: readonly WorkerMetrics[]) => {
      const ids = await numbersOf(
        db,
        scripts.map(({ name }) => name),
      );
      const rows = scripts.map((row) => [ids.get(row.name), row.hour, ...scriptColumns.map((column) => row[column])]);
      const key = ['script_id', 'hour'];
      await putRows(db, 'metrics', [...key, ...scriptColumns], rows, { key, set: scriptColumns });
      const columns = [...workerKey, ...workerColumns];
      const workerRows = workers.map((row) => columns.map((column) => row[column]));
      await putRows(db, 'worker_metrics', columns, workerRows, { key: workerKey, set: workerColumns });
    },
    /** Adds to what has happened since the log began. */
    addCounters: async (rows: readonly CounterRow[]) => {
      const ids = await numbersOf(
        db,
        rows.map(({ name }) => name),
      );
      const key = ['script_id', 'what'];
      const counted = rows.map((row) => [ids.get(row.name), row.what, ...sums.map((sum) => row[sum])]);
      await putRows(db, 'counters', [...key, ...sums], counted, { key, set: [], add: sums });
    },
    counters: () =>
      db.all<CounterRow>(
        'select name, what, times, timed, run_ms, cpu_ms from counters join scripts on scripts.id = script_id',
      ),
    /** Deletes hours that began before; how many rows. */
    prune: async (before: number, limit: number) =>
      (await pruneScripts(db, before, limit)) + (await pruneWorkers(db, before)),
  };
}

/** Numbers of scripts by name; those that were never heard of get one. */
async function numbersOf(db: Statements, names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const wanted = [...new Set(names)].sort();
  if (wanted.length === 0) return new Map();
  const find = async () => {
    const text = `select id, name from scripts where ${db.dialect.isIn('name')}`;
    const rows = await db.all<{ id: number; name: string }>(text, [wanted]);
    return new Map(rows.map(({ id, name }) => [name, id]));
  };
  const found = await find();
  const missing = wanted.filter((name) => !found.has(name)).map((name) => [name]);
  if (missing.length === 0) return found;
  await putRows(db, 'scripts', ['name'], missing, { key: ['name'], set: [] });
  return await find();
}

/** First those that have something old: of most the oldest hour is new, which one step into the index tells. */
async function pruneScripts(db: Statements, before: number, limit: number): Promise<number> {
  const old = await db.all<{ id: number }>(
    `select id from scripts where (select "hour" from metrics where script_id = scripts.id
       order by script_id, "hour" limit 1) < ? limit ?`,
    [before, limit],
  );
  if (old.length === 0) return 0;
  return await db.run(
    `delete from metrics where (script_id, "hour") in (select script_id, "hour" from (
       select script_id, "hour" from metrics where ${db.dialect.isIn('script_id')} and "hour" < ?
       order by script_id, "hour" limit ?) as old)`,
    [old.map(({ id }) => id), before, limit],
  );
}

const pruneWorkers = (db: Statements, before: number): Promise<number> =>
  db.run('delete from worker_metrics where "hour" < ?', [before]);
