import type { Dialect } from '../../shared/sql/dialect.ts';
import { lock } from '../../shared/sql/mutex.ts';
import { putRows } from '../../shared/sql/rows.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import { withTiers } from '../../shared/sql/tiers.ts';
import type { MeasuredBy, Outcome, Severity, Trigger } from '../../words.ts';
import { hasClaim } from '../job-rows.ts';
import { numbersOf } from './metrics.ts';

/** A run that has ended, in the form for telemetry. */
export interface EndedRunFacts {
  readonly id: number;
  readonly script: string;
  readonly jobId: number;
  /** Null: a caller that is no worker of the runner ran it. */
  readonly host: string | null;
  readonly trigger: Trigger | null;
  readonly outcome: Outcome;
  readonly attempt: number;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly durationMs: number | null;
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
  readonly measuredBy: MeasuredBy | null;
  readonly pid: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string | null;
  readonly errorName: string | null;
  readonly errorMessage: string | null;
  readonly errorStack: string | null;
}

/** How far the runs of the log were told: the newest one that was looked at, and those that had not ended by then. */
export interface ToldRun {
  readonly id: number;
  /** A run that is deleted may leave its number to another one. */
  readonly startedAt: number;
  readonly isOpen: boolean;
}

export interface UntoldQuery {
  /** In a log that has sent nothing so far: only runs that began since this time. */
  readonly firstSince: number;
  /** Runs that ended before this time are never sent. */
  readonly since: number;
  /** Most runs to look at. */
  readonly limit: number;
}

export interface UntoldRuns {
  readonly runs: readonly EndedRunFacts[];
  /** To be kept by `keepTold` once they have arrived. */
  readonly told: readonly ToldRun[];
  /** Whether there may be more of them. */
  readonly hasMore: boolean;
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

/** How a site is now; null is unknown. */
export interface SiteState {
  readonly scripts: readonly {
    readonly script: string;
    readonly lastAt: number | null;
    readonly lastOutcome: Outcome | null;
    readonly lastSuspect: 0 | 1;
    readonly lastSuccessAt: number | null;
  }[];
  readonly tiers: readonly { readonly tier: string; readonly lastPassAt: number | null }[];
  readonly queue: {
    readonly jobs: Readonly<Record<'waiting' | 'delayed' | 'running' | 'failed', number>>;
    /** How long the first of those that wait has been due; null: none waits. */
    readonly ageMs: number | null;
  };
  readonly running: number;
  readonly workers: number;
  readonly incidents: Readonly<Record<Severity, number>>;
  readonly deliveries: { readonly waiting: number; readonly givenUp: number };
  readonly logBytes: number;
}

export function telemetryOf(db: Statements) {
  return {
    /** Requests a delivery, unless one is on its way. */
    request: (channel: string, at: number) => request(db, channel, at),
    /** Runs that have ended and were not sent yet, each once, even if rows were deleted meanwhile. */
    untold: (query: UntoldQuery) => findUntold(db, query),
    keepTold: async (told: readonly ToldRun[]) => {
      await db.run('delete from told_runs');
      const rows = told.map(({ id, startedAt, isOpen }) => [id, startedAt, isOpen]);
      await putRows(db, 'told_runs', ['run_id', 'started_at', 'is_open'], rows, { key: ['run_id'], set: [] });
    },
    /** Adds to what has happened since the log began. */
    addCounters: (rows: readonly CounterRow[]) => addCounters(db, rows),
    counters: () =>
      db.all<CounterRow>(
        'select name, what, times, timed, run_ms, cpu_ms from counters join scripts on scripts.id = script_id',
      ),
    /** When the first run of the log began, which may be long gone; null: nothing has run. */
    beganAt: async () =>
      (await db.first<{ at: number | null }>('select min(first_run_at) as at from script_versions'))?.at ?? null,
    state: (at: number) => readState(db, at),
  };
}

/** Two machines that ask at once come one after the other: the second one finds it asked for. */
async function request(db: Statements, channel: string, at: number): Promise<void> {
  const find = () =>
    db.first(`select 1 as one from deliveries where kind = 'telemetry' and due_at is not null limit 1`);
  if ((await find()) !== undefined) return;
  await lock(db, 'telemetry');
  if ((await find()) !== undefined) return;
  await db.run(`insert into deliveries (kind, channel, body, created_at, due_at) values ('telemetry', ?, '{}', ?, ?)`, [
    channel,
    at,
    at,
  ]);
}

async function addCounters(db: Statements, rows: readonly CounterRow[]): Promise<void> {
  const ids = await numbersOf(
    db,
    rows.map(({ name }) => name),
  );
  const sums = ['times', 'timed', 'run_ms', 'cpu_ms'];
  const key = ['script_id', 'what'];
  const counted = rows.map(({ name, what, times, timed, run_ms, cpu_ms }) => {
    return [ids.get(name), what, times, timed, run_ms, cpu_ms];
  });
  await putRows(db, 'counters', [...key, ...sums], counted, { key, set: [], add: sums });
}

const figures = {
  ready: 'jobs where ready = 1',
  blocked: 'jobs where ready = 2',
  due: 'jobs where ready = 0 and run_at <= ?',
  delayed: 'jobs where ready = 0 and run_at > ?',
  claimed: `jobs where ${hasClaim} and tier is null`,
  failed: `jobs where state = 'failed' and finished_at is not null and tier is null`,
  running: `runs where outcome = 'running'`,
  workers: `workers where state = 'running'`,
  warning: `incidents where recovered_at is null and severity = 'warning'`,
  critical: `incidents where recovered_at is null and severity = 'critical'`,
  waiting: 'deliveries where due_at is not null',
  givenUp: 'deliveries where due_at is null',
} as const;

const figuresText = Object.entries(figures).map(([name, rows]) => `(select count(*) from ${rows}) as "${name}"`);

const oldestText = `select min(run_at) as since from (
  select min(run_at) as run_at from jobs where ready = 1 and run_at <= ?
  union all select min(run_at) from jobs where ready = 2 and run_at <= ?
  union all select min(run_at) from jobs where ready = 0 and run_at <= ?) as waiting`;

/** Each figure by an index, however much the log holds. */
async function readState(db: Statements, at: number): Promise<SiteState> {
  const values = Array(figuresText.join('').split('?').length - 1).fill(at);
  const counted = (await db.first<Record<keyof typeof figures, number>>(
    `select ${figuresText.join(', ')}`,
    values,
  )) as Record<keyof typeof figures, number>;
  const since = (await db.first<{ since: number | null }>(oldestText, [at, at, at]))?.since ?? null;
  const { ready, blocked, due, delayed, claimed, failed, running, workers, warning, critical, waiting, givenUp } =
    counted;
  return {
    scripts: await db.all(lastRunsText(db.dialect.join)),
    tiers: await db.all(`${withTiers(db.dialect)} ${lastPassesText}`),
    queue: {
      jobs: { waiting: ready + blocked + due, delayed, running: claimed, failed },
      ageMs: since === null ? null : at - since,
    },
    running,
    workers,
    incidents: { warning, critical },
    deliveries: { waiting, givenUp },
    logBytes: (await db.first<{ bytes: number }>(bytesTexts[db.dialect.name]))?.bytes ?? 0,
  };
}

/** The bytes of all tables with their indexes. */
const bytesTexts: Readonly<Record<Dialect['name'], string>> = {
  sqlite: 'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
  postgres: `select sum(pg_total_relation_size(oid)) as bytes from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
  mysql: `select sum(data_length + index_length) as bytes from information_schema.tables
    where table_schema = database()`,
};

const lastRunsText = (join: Dialect['join']): string => `
  select scripts.name as script, newest.started_at as "lastAt", newest.outcome as "lastOutcome",
    newest.suspect as "lastSuspect",
    (select started_at from runs where script_id = scripts.id and outcome = 'succeeded'
     order by started_at desc limit 1) as "lastSuccessAt"
  from scripts ${join} runs as newest on newest.id =
    (select id from runs where script_id = scripts.id order by started_at desc, id desc limit 1)
  order by scripts.name`;

const lastPassesText = `select tier, (select started_at from workers
    where workers.tier = tiers.tier and kind = 'tier' and state <> 'skipped'
    order by started_at desc limit 1) as "lastPassAt"
  from tiers where tier is not null`;

interface Looked {
  readonly id: number;
  readonly startedAt: number;
  readonly outcome: Outcome;
}

/** No transaction lasts longer: a number that is still missing then is nobody's. */
const LONGEST_TRANSACTION_MS = 60_000;

/** Most missing numbers that are looked for again. */
const MOST_MISSING = 2_000;

async function findUntold(db: Statements, { firstSince, since, limit }: UntoldQuery): Promise<UntoldRuns> {
  const told = await db.all<ToldRun>(
    'select run_id as id, started_at as "startedAt", is_open as "isOpen" from told_runs order by run_id',
  );
  const beginning = await findBeginning(db, told.at(-1), firstSince);
  const from = beginning?.id ?? 0;
  const open = told.filter(({ id, isOpen }) => isOpen && id <= from);
  const ids = open.map(({ id }) => id);
  const known = ids.length === 0 ? [] : await look(db, `where ${db.dialect.isIn('id')}`, [ids]);
  const fresh = await look(db, 'where id > ? order by id limit ?', [from, limit]);
  const last = fresh.at(-1) ?? beginning;
  const looked = [...known, ...fresh];
  const ended = looked.filter(({ outcome }) => outcome !== 'running').map(({ id }) => id);
  const running = looked.filter(({ outcome }) => outcome === 'running');
  const stillOpen = [...running.map(toOpen), ...(await findMissing(db, { open, known, from, fresh }))];
  return {
    runs: await readFacts(db, ended, since),
    told: [
      ...stillOpen.filter(({ id }) => id !== last?.id),
      ...(last === undefined ? [] : [{ ...toOpen(last), isOpen: running.some(({ id }) => id === last.id) }]),
    ],
    hasMore: fresh.length === limit,
  };
}

const toOpen = ({ id, startedAt }: Pick<ToldRun, 'id' | 'startedAt'>): ToldRun => ({ id, startedAt, isOpen: true });

async function look(db: Statements, where: string, values: readonly unknown[]): Promise<Looked[]> {
  return await db.all<Looked>(`select id, started_at as "startedAt", outcome from runs ${where}`, values);
}

/**
 * The run behind which all are new: the newest one that was told, or at first the newest that began before
 * `firstSince`. SQLite may give the number of a deleted run, and those before it, to new runs.
 */
async function findBeginning(
  db: Statements,
  newest: ToldRun | undefined,
  firstSince: number,
): Promise<Pick<ToldRun, 'id' | 'startedAt'> | undefined> {
  if (newest !== undefined && db.dialect.name !== 'sqlite') return newest;
  const [until, before] = newest ? [newest.id, newest.startedAt + 1] : [Number.MAX_SAFE_INTEGER, firstSince];
  return (await look(db, 'where id <= ? and started_at < ? order by id desc limit 1', [until, before]))[0];
}

interface Seen {
  readonly open: readonly ToldRun[];
  readonly known: readonly Looked[];
  readonly from: number;
  readonly fresh: readonly Looked[];
}

/**
 * What has a smaller number may be committed later, by another machine. So numbers that are missing count as open runs,
 * which begin with the instant at which they were first missed, for as long as somebody may be writing them.
 */
async function findMissing(db: Statements, { open, known, from, fresh }: Seen): Promise<ToldRun[]> {
  // One transaction of SQLite writes at a time.
  if (db.dialect.name === 'sqlite') return [];
  const { at = 0 } = (await db.first<{ at: number }>(`select ${db.dialect.nowMs} as at`)) ?? {};
  const found = new Set([...known, ...fresh].map(({ id }) => id));
  const before = open.filter(({ id, startedAt }) => !found.has(id) && startedAt > at - LONGEST_TRANSACTION_MS);
  const missing: ToldRun[] = [];
  const last = fresh.at(-1)?.id ?? from;
  for (let id = last - 1; id > from && missing.length < MOST_MISSING; id -= 1) {
    if (!found.has(id)) missing.push({ id, startedAt: at, isOpen: true });
  }
  return [...before.map(toOpen), ...missing];
}

async function readFacts(db: Statements, ids: readonly number[], since: number): Promise<EndedRunFacts[]> {
  if (ids.length === 0) return [];
  return await db.all<EndedRunFacts>(
    `select runs.id, scripts.name as script, runs.job_id as "jobId", hosts.host, workers.triggered_by as "trigger",
       runs.outcome, runs.attempt, runs.scheduled_for as "scheduledFor", runs.started_at as "startedAt",
       runs.finished_at as "finishedAt", runs.duration_ms as "durationMs", runs.user_cpu_ms as "userCpuMs",
       runs.system_cpu_ms as "systemCpuMs", runs.max_rss_bytes as "maxRssBytes", runs.measured_by as "measuredBy",
       runs.pid, runs.exit_code as "exitCode", runs."signal", runs.reason, runs.error_name as "errorName",
       runs.error_message as "errorMessage", runs.error_stack as "errorStack"
     from runs ${db.dialect.join} scripts on scripts.id = runs.script_id
     left join workers on workers.id = runs.worker_id left join hosts on hosts.id = workers.host_id
     where ${db.dialect.isIn('runs.id')} and coalesce(runs.finished_at, runs.started_at) >= ? order by runs.id`,
    [ids, since],
  );
}
