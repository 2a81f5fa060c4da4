import type {
  CounterRow,
  EndedRunFacts,
  SiteState,
  TelemetryStore,
  ToldRun,
  UntoldQuery,
  UntoldRuns,
} from '../../../contract/alerts.ts';
import type { Sync } from '../../../shared/areas.ts';
import type { Outcome, Severity } from '../../../words.ts';
import type { SqliteStatements } from '../../session.ts';

export function sqliteTelemetry(db: SqliteStatements): Sync<TelemetryStore> {
  return {
    request: (channel, at) => {
      db.run(
        `insert into deliveries (kind, channel, body, created_at, due_at) select 'telemetry', ?, '{}', ?, ?
         where not exists (select 1 from deliveries where kind = 'telemetry' and due_at is not null)`,
        [channel, at, at],
      );
    },
    untold: (query) => findUntold(db, query),
    keepTold: (told) => {
      db.run('delete from told_runs');
      for (const { id, startedAt, isOpen } of told) {
        db.run('insert into told_runs (run_id, started_at, is_open) values (?, ?, ?)', [id, startedAt, isOpen ? 1 : 0]);
      }
    },
    addCounters: (rows) => addCounters(db, rows),
    counters: () =>
      db.all<CounterRow>(
        'select name, what, times, timed, run_ms, cpu_ms from counters join scripts on scripts.id = script_id',
      ),
    beganAt: () => db.first<{ at: number | null }>('select min(first_run_at) as at from script_versions')?.at ?? null,
    state: (at) => readState(db, at),
  };
}

function addCounters(db: SqliteStatements, rows: readonly CounterRow[]): void {
  for (const { name, what, times, timed, run_ms, cpu_ms } of rows) {
    db.run('insert or ignore into scripts (name) values (?)', [name]);
    db.run(
      `insert into counters (script_id, what, times, timed, run_ms, cpu_ms)
       select id, ?, ?, ?, ?, ? from scripts where name = ?
       on conflict (script_id, what) do update set times = times + excluded.times, timed = timed + excluded.timed,
         run_ms = run_ms + excluded.run_ms, cpu_ms = cpu_ms + excluded.cpu_ms`,
      [what, times, timed, run_ms, cpu_ms, name],
    );
  }
}

/** Each figure by an index, however much the log holds. */
function readState(db: SqliteStatements, at: number): SiteState {
  const count = (text: string, values: readonly unknown[] = []): number =>
    db.first<{ found: number }>(`select count(*) as found from ${text}`, values)?.found ?? 0;
  const oldest = db.first<{ since: number | null }>(
    `select min(run_at) as since from (
       select min(run_at) as run_at from jobs where ready = 1 and run_at <= ?
       union all select min(run_at) from jobs where ready = 2 and run_at <= ?
       union all select min(run_at) from jobs where ready = 0 and run_at <= ?)`,
    [at, at, at],
  )?.since;
  const openOf = (severity: Severity): number =>
    count('incidents where recovered_at is null and severity = ?', [severity]);
  return {
    scripts: db.all(lastRunsText),
    tiers: db.all(lastPassesText),
    queue: {
      jobs: {
        waiting:
          count('jobs where ready = 1') +
          count('jobs where ready = 2') +
          count('jobs where ready = 0 and run_at <= ?', [at]),
        delayed: count('jobs where ready = 0 and run_at > ?', [at]),
        running: count('jobs where claim_token is not null and tier is null'),
        failed: count(`jobs where state = 'failed' and finished_at is not null and tier is null`),
      },
      ageMs: oldest == null ? null : at - oldest,
    },
    running: count(`runs where outcome = 'running'`),
    workers: count(`workers where state = 'running'`),
    incidents: { warning: openOf('warning'), critical: openOf('critical') },
    deliveries: {
      waiting: count('deliveries where due_at is not null'),
      givenUp: count('deliveries where due_at is null'),
    },
    logBytes:
      db.first<{ bytes: number }>('select page_count * page_size as bytes from pragma_page_count, pragma_page_size')
        ?.bytes ?? 0,
  };
}

const lastRunsText = `select name as script, newest.started_at as lastAt, newest.outcome as lastOutcome,
    newest.suspect as lastSuspect,
    (select started_at from runs where script_id = scripts.id and outcome = 'succeeded'
     order by started_at desc limit 1) as lastSuccessAt
  from scripts cross join runs as newest on newest.id =
    (select id from runs where script_id = scripts.id order by started_at desc, id desc limit 1)
  order by name`;

const lastPassesText = `with recursive tiers (tier) as (
    select min(tier) from workers
    union all select (select min(tier) from workers where tier > tiers.tier) from tiers where tier is not null)
  select tier, (select started_at from workers where workers.tier = tiers.tier and kind = 'tier' and state <> 'skipped'
    order by started_at desc limit 1) as lastPassAt
  from tiers where tier is not null`;

interface Looked {
  readonly id: number;
  readonly startedAt: number;
  readonly outcome: Outcome;
}

function findUntold(db: SqliteStatements, query: UntoldQuery): UntoldRuns {
  const told = db.all<{ id: number; startedAt: number; isOpen: number }>(
    'select run_id as id, started_at as startedAt, is_open as isOpen from told_runs order by run_id',
  );
  const open = db.all<Looked>(
    `select id, runs.started_at as startedAt, outcome from told_runs cross join runs on runs.id = run_id
     where is_open = 1`,
  );
  const newest = told.at(-1);
  const from = findBeginning(db, newest, query);
  const fresh = db.all<Looked>(
    'select id, started_at as startedAt, outcome from runs where id > ? order by id limit ?',
    [from?.id ?? 0, query.limit],
  );
  const looked = [...open.filter(({ id }) => id <= (from?.id ?? 0)), ...fresh];
  const ended = looked.filter(({ outcome }) => outcome !== 'running').map(({ id }) => id);
  return {
    runs: readFacts(db, ended, query.since),
    told: toldOf(looked, fresh.at(-1) ?? from),
    hasMore: fresh.length === query.limit,
  };
}

type Beginning = Pick<ToldRun, 'id' | 'startedAt'> | undefined;

/** Those that have not ended, and the newest one, from which to go on. */
function toldOf(looked: readonly Looked[], last: Beginning): ToldRun[] {
  const open = looked.filter(({ outcome, id }) => outcome === 'running' && id !== last?.id);
  const told = open.map(({ id, startedAt }) => ({ id, startedAt, isOpen: true }));
  if (last === undefined) return told;
  const isOpen = looked.some(({ id, outcome }) => id === last.id && outcome === 'running');
  return [...told, { id: last.id, startedAt: last.startedAt, isOpen }];
}

/**
 * Runs get growing numbers, so that those behind the newest one that was told are new: unless that one was deleted,
 * for then its number, and others before it, may be those of new runs.
 */
function findBeginning(db: SqliteStatements, newest: Beginning, query: UntoldQuery): Beginning {
  const [until, before] = newest ? [newest.id, newest.startedAt + 1] : [Number.MAX_SAFE_INTEGER, query.firstSince];
  return db.first<{ id: number; startedAt: number }>(
    `select id, started_at as startedAt from runs where id <= ? and started_at < ? order by id desc limit 1`,
    [until, before],
  );
}

function readFacts(db: SqliteStatements, ids: readonly number[], since: number): EndedRunFacts[] {
  if (ids.length === 0) return [];
  return db.all<EndedRunFacts>(
    `select runs.id, scripts.name as script, job_id as jobId, host, triggered_by as "trigger", outcome, attempt,
       runs.scheduled_for as scheduledFor, runs.started_at as startedAt, runs.finished_at as finishedAt,
       duration_ms as durationMs, user_cpu_ms as userCpuMs, system_cpu_ms as systemCpuMs,
       max_rss_bytes as maxRssBytes, measured_by as measuredBy, runs.pid, exit_code as exitCode, signal, runs.reason,
       error_name as errorName, error_message as errorMessage, error_stack as errorStack
     from json_each(?) cross join runs on runs.id = value
     join scripts on scripts.id = runs.script_id
     left join workers on workers.id = runs.worker_id left join hosts on hosts.id = workers.host_id
     where coalesce(runs.finished_at, runs.started_at) >= ? order by runs.id`,
    [JSON.stringify(ids), since],
  );
}
