import { markSuspectRuns } from '../shared/old-words.ts';
import type { Connection, Driver } from './connection.ts';
import { counting } from './statements/counted.ts';
import { isLong } from './statements/monitor/metrics.ts';

/**
 * The tables of the log, one list of statements per version of the schema. Only a process that makes or repairs a log
 * loads them, which hardly any invocation does.
 *
 * A program that adds a job by plain SQL uses an SQLite of its own, PHP's for example, which must read this schema:
 * 3.26 on Enterprise Linux 8, 3.34 on 9. So no STRICT tables (3.37), no `unixepoch()` (3.38).
 */
const NOW_MS = "(cast((julianday('now') - 2440587.5) * 86400000 as integer))";

/** The range of a JavaScript date, in epoch milliseconds. */
const isInstant = (column: string): string =>
  `(typeof(${column}) = 'integer' and ${column} between -8640000000000000 and 8640000000000000)`;

/** A run_at this small is before March 1973. It may be right on a machine whose clock is wrong by decades. */
const isInSeconds = `run_at between 1 and 99999999999 and created_at > 99999999999
        and tier is null and scheduled_for is null and started_at is null`;

const isOneOf =
  (types: string) =>
  (column: string): string =>
    `typeof(${column}) in (${types})`;

const areAll = (columns: string, check: (column: string) => string): string =>
  columns.split(' ').map(check).join(' and ');

/**
 * Columns that only the runner sets. They are checked all the same: readers would take the bytes of a blob for a
 * number.
 */
const counts = 'reported_to_parent lease_extended';
const instants = 'started_at finished_at lease_expires_at';
const texts = 'host result retry repeat unique_key concurrency_key claim_token reason';

const jobs = `create table jobs (
    id integer primary key autoincrement
      constraint "a job's id is a whole number from 1 to 9007199254740991"
      check (id between 1 and 9007199254740991),
    name text not null
      constraint "a job's name is text of 1 to 255 characters"
      check (typeof(name) = 'text' and length(name) between 1 and 255 and instr(name, char(0)) = 0),
    tier text,
    host text,
    state text not null default 'queued' check (state in ('queued', 'claimed', 'running', 'finished',
      'retrying', 'failed', 'paused', 'cancelled')),
    ready integer default 0,
    data text not null default '{}'
      constraint "a job's data is JSON of at most 1 MiB"
      check (typeof(data) = 'text' and json_valid(data) and instr(data, char(0)) = 0
        and length(cast(data as blob)) <= 1048576),
    result text,
    priority integer not null default 500
      constraint "a job's priority is a whole number from -9007199254740991 to 9007199254740991"
      check (typeof(priority) = 'integer'
        and priority between -9007199254740991 and 9007199254740991),
    scheduled_for integer
      constraint "a job's scheduled_for is in milliseconds since 1970"
      check (scheduled_for is null or ${isInstant('scheduled_for')}),
    run_at integer not null default ${NOW_MS}
      constraint "a job's run_at is in milliseconds since 1970"
      check (typeof(run_at) = 'integer' and run_at between 0 and 8640000000000000),
    started_at integer,
    attempts integer not null default 0
      constraint "a job's attempts are a whole number from 0 to 9007199254740991"
      check (typeof(attempts) = 'integer' and attempts between 0 and 9007199254740991),
    retry text,
    repeat text,
    missed_policy text not null default 'all' check (missed_policy in ('all', 'once', 'skip')),
    unique_key text,
    concurrency_key text,
    parent_id integer,
    reported_to_parent integer not null default 0,
    on_child_failure text check (on_child_failure in ('resume', 'fail')),
    lease_ms integer
      constraint "a job's lease_ms is a whole number from 1 to 8640000000000"
      check (lease_ms is null or (typeof(lease_ms) = 'integer' and lease_ms between 1 and 8640000000000)),
    lease_expires_at integer,
    lease_extended integer not null default 0,
    claim_token text,
    created_at integer not null default ${NOW_MS}
      constraint "a job's created_at is in milliseconds since 1970" check (${isInstant('created_at')}),
    finished_at integer,
    reason text,
    constraint "a job's run_at is in milliseconds since 1970, not in seconds" check (not (${isInSeconds})),
    constraint "a job is ready or not as long as it waits in the queue"
      check (case when tier is null and state in ('queued', 'retrying')
        then ready is not null and ready in (0, 1, 2) else ready is null end),
    constraint "a job's counters are whole numbers" check (${areAll(counts, isOneOf("'integer'"))}),
    constraint "a job's instants are in milliseconds since 1970"
      check (${areAll(instants, (column) => `(${column} is null or ${isInstant(column)})`)}),
    constraint "a job's parent_id is a whole number" check (typeof(parent_id) in ('integer', 'null')),
    constraint "a job's texts are text" check (${areAll(texts, isOneOf("'text', 'null'"))})
  )`;

const runs = `create table runs (
    id integer primary key,
    job_id integer not null references jobs (id) on delete cascade,
    worker_id integer,
    script_id integer not null,
    version_id integer,
    claim_number integer,
    attempt integer not null,
    outcome text not null check (outcome in
      ('running', 'succeeded', 'failed', 'timed-out', 'killed', 'crashed', 'not-started', 'released')),
    left_job text,
    scheduled_for integer,
    started_at integer not null,
    finished_at integer,
    timeout_ms integer,
    duration_ms real,
    user_cpu_ms real,
    system_cpu_ms real,
    max_rss_bytes integer,
    rss_delta_bytes integer,
    measured_by text check (measured_by in ('self', 'sampled')),
    pid integer,
    pid_start_ticks integer,
    exit_code integer,
    signal text,
    reason text,
    warning text,
    error_name text,
    error_message text,
    error_stack text,
    output_bytes integer,
    output_dropped_bytes integer,
    output_file text,
    output_file_bytes integer,
    spool_id text
  )`;

/** Rows are never changed by it: whoever settles a run says in `left_job` what became of its job. */
const activity = `create view activity as
  select started_at as at, case state when 'skipped' then 'worker-skipped' else 'worker-started' end as event,
    id as worker_id, null as job_id, null as run_id, case state when 'skipped' then reason end as detail, null as actor,
    null as warning from workers
  union all select finished_at, case state when 'crashed' then 'worker-crashed' else 'worker-finished' end,
    id, null, null, reason, null, null from workers where state in ('finished', 'crashed')
  union all select created_at, 'job-queued', null, id, null, null, null, null from jobs where tier is null
  union all select started_at, 'run-started', worker_id, job_id, id, null, null, null from runs
  union all select finished_at, case when outcome = 'released' and left_job is not 'cancelled' then 'job-released'
      when left_job is null then 'job-finished' else 'job-' || left_job end,
    worker_id, job_id, id, reason, null, warning from runs where finished_at is not null
  union all select at, event, worker_id, job_id, run_id, detail, actor, null from events`;

const tables = [
  `create table hosts (
    id integer primary key,
    host text not null,
    boot_id text,
    runner_version text not null,
    node_version text not null
  )`,
  // Its number also names the files of its runs: it is never used twice.
  `create table workers (
    id integer primary key autoincrement,
    kind text not null,
    tier text,
    state text not null check (state in ('running', 'finished', 'skipped', 'crashed')),
    host_id integer not null,
    pid integer not null,
    pid_start_ticks integer,
    triggered_by text not null default 'cron' check (triggered_by in ('cron', 'due', 'manual')),
    scheduled_for integer,
    started_at integer not null,
    lease_expires_at integer,
    finished_at integer,
    skip_code text,
    reason text
  )`,
  // The second guard of the tier lock: the file itself refuses two live workers of one tier.
  `create unique index workers_running on workers (tier) where state = 'running'`,
  `create index workers_by_tier on workers (tier, started_at)`,
  `create index workers_in_order on workers (tier) where kind = 'tier'`,
  // They are few: without it the last one is looked for among all calls.
  `create index workers_by_hand on workers (tier, started_at) where triggered_by = 'manual'`,
  // The few that have died: health checks count them, however many others there are.
  `create index workers_crashed on workers (finished_at) where state = 'crashed'`,
  `create table scripts (id integer primary key, name text not null unique)`,
  `create table script_versions (
    id integer primary key,
    script_id integer not null,
    content_hash text not null,
    first_run_at integer not null,
    unique (script_id, content_hash)
  )`,
  // A job's number is never used twice: who kept that of a deleted one must not act on another.
  jobs,
  // A script is never twice under way: it has one row, or one for each host.
  `create unique index jobs_of_scripts on jobs (name, coalesce(host, '')) where tier is not null`,
  // Due jobs, in the order in which they are taken; by name for a worker that takes only some.
  `create index jobs_ready on jobs (priority desc, run_at, id, name, concurrency_key) where ready = 1`,
  `create index jobs_ready_by_name on jobs (name, priority desc, run_at, id, concurrency_key)
    where ready = 1`,
  `create index jobs_delayed on jobs (run_at, priority desc) where ready = 0`,
  // Blocked: due, in a group that was full when a claim came to it. Claims pass by them, however many they are.
  `create index jobs_blocked on jobs (coalesce(concurrency_key, ''), priority desc, run_at, id) where ready = 2`,
  `create index jobs_claimed on jobs (lease_expires_at) where claim_token is not null`,
  `create unique index jobs_unique_key on jobs (unique_key)
    where unique_key is not null and finished_at is null`,
  `create index jobs_by_parent on jobs (parent_id, state) where parent_id is not null`,
  `create index jobs_ended on jobs (state, finished_at) where finished_at is not null and tier is null`,
  runs,
  // With their outcome: the last success of a script that never succeeds is looked for in all of its runs. With their
  // figures in whole microseconds, half as many bytes: a report reads nothing else of a month's runs.
  `create index runs_by_script on runs (script_id, started_at, id, outcome,
    cast(duration_ms * 1000 + 0.5 as integer),
    cast((user_cpu_ms + system_cpu_ms) * 1000 + 0.5 as integer), max_rss_bytes)`,
  `create index runs_by_job on runs (job_id)`,
  `create index runs_running on runs (worker_id) where outcome = 'running'`,
  `create index runs_with_file on runs (job_id, output_file_bytes) where output_file is not null`,
  `create unique index runs_by_spool_id on runs (spool_id) where spool_id is not null`,
  `create table outputs (
    run_id integer primary key references runs (id) on delete cascade,
    output text not null
  )`,
  `create table events (
    id integer primary key,
    at integer not null,
    event text not null,
    worker_id integer,
    job_id integer,
    run_id integer,
    detail text,
    actor text
  )`,
  `create index events_by_time on events (at)`,
  `create index events_of_jobs on events (job_id) where job_id is not null`,
  `create table pauses (
    name text primary key,
    kind text not null default 'pause' check (kind in ('pause', 'fail-fast')),
    until integer,
    created_at integer not null
  ) without rowid`,
  activity,
  `create view runs_readable as select
    runs.id, scripts.name as script, attempt, outcome,
    strftime('%Y-%m-%d %H:%M:%S', started_at / 1000.0, 'unixepoch', 'localtime') as started,
    strftime('%Y-%m-%d %H:%M:%S', finished_at / 1000.0, 'unixepoch', 'localtime') as finished,
    round(duration_ms / 1000.0, 3) as seconds,
    round(user_cpu_ms + system_cpu_ms) as cpu_ms,
    round(max_rss_bytes / 1048576.0, 1) as max_rss_mib,
    measured_by, exit_code, signal, reason, warning, output
  from runs join scripts on scripts.id = script_id left join outputs on run_id = runs.id
  order by started_at desc, runs.id desc`,
];

/** Rows that are deleted leave their counts in `gone`: no count ever becomes smaller. */
const totals = [
  `create table gone (
    handler text not null,
    what text not null,
    times integer not null,
    primary key (handler, what)
  ) without rowid`,
  `create view totals as select handler, what, sum(times) as times
    from (select handler, what, times from gone
      union all ${counting.countsOf({ jobs: 'true', runs: 'true', events: 'true' })})
    group by handler, what`,
];

/** Tables of problems, the receivers of messages about them, and the messages that wait to be sent. */
const alerts = [
  `create table incidents (
    id integer primary key autoincrement,
    subject text not null,
    code text not null,
    fingerprint text not null default '',
    severity text not null check (severity in ('warning', 'critical')),
    opened_at integer not null,
    last_at integer not null,
    occurrences integer not null default 1,
    succeeded_at integer,
    first_run_id integer,
    last_run_id integer,
    message text,
    hint text,
    told_at integer,
    reminded_at integer,
    printed_at integer,
    recovered_at integer,
    recovery_told_at integer,
    acknowledged_at integer,
    due_at integer
  )`,
  `create unique index incidents_open on incidents (subject, code, fingerprint) where recovered_at is null`,
  `create index incidents_due on incidents (due_at) where due_at is not null`,
  `create table tellings (channel text not null, at integer not null)`,
  `create table mutes (name text primary key, until integer, created_at integer not null) without rowid`,
  `create table deliveries (
    id integer primary key autoincrement,
    kind text not null check (kind in ('alert', 'ping', 'telemetry', 'report')),
    channel text not null,
    body text not null,
    created_at integer not null,
    due_at integer,
    attempts integer not null default 0,
    reason text
  )`,
  `create index deliveries_due on deliveries (due_at)`,
  `create table chores (name text primary key, done_at integer not null) without rowid`,
  `create table counters (
    script_id integer not null,
    what text not null,
    times integer not null,
    timed integer not null,
    run_ms real not null,
    cpu_ms real not null,
    primary key (script_id, what)
  ) without rowid`,
  `create table told_runs (run_id integer primary key, started_at integer not null, is_open integer not null)`,
];

/** Tables of a script's usual figures, and of runs that deviated from them. */
const usual = [
  `create table counts (
    run_id integer not null references runs (id) on delete cascade,
    name text not null,
    value real not null,
    primary key (run_id, name)
  ) without rowid`,
  `create table uncompared (run_id integer primary key references runs (id) on delete cascade)`,
  `create table deviations (
    run_id integer not null references runs (id) on delete cascade,
    measure text not null check (measure in ('duration', 'memory', 'creep', 'output', 'count')),
    name text not null default '',
    value real not null,
    usual real not null,
    runs integer not null,
    since integer,
    primary key (run_id, measure, name)
  ) without rowid`,
];

const metrics = [
  `create table metrics (
    script_id integer not null,
    hour integer not null,
    added integer not null,
    started integer not null,
    ended integer not null,
    finished integer not null,
    errors integer not null,
    failed integer not null,
    crashed integer not null,
    warned integer not null,
    run_ms real,
    run_min_ms real,
    run_max_ms real,
    run_histogram blob,
    service_ms integer,
    service_min_ms integer,
    service_max_ms integer,
    service_histogram blob,
    cpu_runs integer not null,
    cpu_ms real,
    max_rss_bytes integer,
    late_runs integer not null,
    late_ms integer,
    late_max_ms integer,
    waiting integer,
    waiting_ms integer,
    primary key (script_id, hour)
  ) without rowid`,
  `create table worker_metrics (
    kind text not null,
    tier text not null,
    hour integer not null,
    workers integer not null,
    skipped integer not null,
    crashed integer not null,
    alive_ms integer not null,
    alive_min_ms integer,
    alive_max_ms integer,
    busy_ms integer not null,
    jobs integer not null,
    max_jobs integer not null,
    peak integer not null,
    primary key (kind, tier, hour)
  ) without rowid`,
  `create table uncounted (
    id integer primary key,
    what text not null check (what in ('added', 'run', 'failed')),
    name text not null,
    worker_id integer,
    outcome text,
    left_job text,
    started_at integer,
    finished_at integer,
    late_ms integer,
    service_ms integer,
    duration_ms real,
    cpu_ms real,
    max_rss_bytes integer,
    warned integer not null,
    counts_start integer not null,
    counts_end integer not null
  )`,
  `create index uncounted_starts on uncounted (started_at) where counts_start = 1`,
  `create index uncounted_ends on uncounted (finished_at) where counts_end = 1`,
  `create index jobs_added on jobs (created_at) where tier is null`,
  `create index runs_long on runs (finished_at) where ${isLong}`,
  `create index workers_long on workers (finished_at) where ${isLong}`,
];

/** The table of tokens, by which a person may use the dashboard from another machine. */
const access = [
  `create table tokens (
    id integer primary key autoincrement,
    name text not null unique,
    hash text not null unique,
    permission text not null check (permission in ('read', 'manage')),
    created_at integer not null,
    expires_at integer,
    last_used_at integer
  )`,
];

/** Tables of machines that share a log on a server. A log in a file does not need them, but has them all the same. */
const fleet = [
  `create table machines (
    host text primary key,
    seen_at integer not null,
    clock_offset_ms integer not null,
    runner_version text not null
  ) without rowid`,
  `create table copies (
    host text not null,
    name text not null,
    tier text not null,
    content_hash text,
    host_pattern text,
    primary key (host, name)
  ) without rowid`,
];

/** Statements by version: those of version 1 come first. */
const migrations: readonly (readonly string[])[] = [
  [...tables, ...totals, ...metrics, ...usual, ...alerts, ...access, ...fleet],
  ['alter table runs add column suspect integer not null default 0', markSuspectRuns],
];

/** Brings the tables to the newest schema, all or nothing, once however many processes try. */
export function migrateFile(connection: Connection): void {
  connection.exec('begin immediate');
  try {
    const version = Number(connection.pragma('user_version'));
    for (const statement of migrations.slice(version).flat()) connection.exec(statement);
    connection.exec(`pragma user_version = ${Math.max(version, migrations.length)}`);
    connection.exec('commit');
  } catch (error) {
    if (connection.inTransaction) connection.exec('rollback');
    throw error;
  }
}

/** Makes the tables of a version of the schema, in a file that has none; `migrateFile` brings them to the newest. */
export function makeTables(connection: Connection, version: number): void {
  for (const statement of migrations.slice(0, version).flat()) connection.exec(statement);
  connection.pragma(`user_version = ${version}`);
}

/** Whether each object of the file is one that the runner has made at this version, word for word, and none is more. */
export function isOwnSchema(connection: Connection, driver: Driver): boolean {
  const pristine = driver.open(':memory:', { timeoutMs: 0 });
  try {
    makeTables(pristine, Math.max(0, Number(connection.pragma('user_version'))));
    const own = readObjects(pristine);
    const found = [...readObjects(connection).values()];
    return found.every(({ type, name, sql }) => {
      const mine = own.get(name);
      return mine?.type === type && withoutSpace(mine.sql ?? '') === withoutSpace(sql ?? '');
    });
  } finally {
    pristine.close();
  }
}

/** A change that another program has made to the tables. */
export interface SchemaFlaw {
  /** "the table runs is missing" */
  readonly what: string;
  /** An object that holds no rows is made again; an object that is not the runner's own is left to its maker. */
  readonly cure: 'new-log' | 'make-again' | 'drop';
  /** The statement that cures it; '' if only a new log does. */
  readonly sql: string;
}

interface SchemaObject {
  readonly type: 'table' | 'index' | 'view' | 'trigger';
  readonly name: string;
  readonly sql: string;
}

/** How the tables differ from those that the runner has made at this version, or is about to make. */
export function findSchemaFlaws(connection: Connection, driver: Driver): readonly SchemaFlaw[] {
  const version = Math.max(0, Number(connection.pragma('user_version')));
  const found = readObjects(connection);
  const pristine = driver.open(':memory:', { timeoutMs: 0 });
  try {
    for (const statement of migrations.slice(0, version).flat()) pristine.exec(statement);
    const own = readObjects(pristine);
    for (const statement of migrations.slice(version).flat()) pristine.exec(statement);
    const later = [...readObjects(pristine).values()].filter(({ name }) => !own.has(name));
    return [
      ...[...own.values()].flatMap((each) => compareObject(each, found.get(each.name), connection, pristine)),
      ...later.filter(({ name }) => found.has(name)).map(({ type, name }) => lost(`the ${type} ${name} is too early`)),
      ...[...found.values()].filter(({ name }) => !own.has(name)).flatMap(judgeStranger),
    ];
  } finally {
    pristine.close();
  }
}

function readObjects(connection: Connection): ReadonlyMap<string, SchemaObject> {
  const text = `select type, lower(name) as name, sql from sqlite_master where name not like 'sqlite~_%' escape '~'`;
  const objects = connection.prepare(text).all([]) as SchemaObject[];
  return new Map(objects.map((each) => [each.name, each]));
}

function compareObject(
  own: SchemaObject,
  found: SchemaObject | undefined,
  connection: Connection,
  pristine: Connection,
): SchemaFlaw[] {
  const { type, name, sql } = own;
  if (found !== undefined && found.type !== type) return [lost(`${name} is a ${found.type}, not the ${type} it was`)];
  if (type === 'table') {
    return found === undefined ? [lost(`the table ${name} is missing`)] : compareColumns(name, connection, pristine);
  }
  if (found === undefined) return [{ what: `the ${type} ${name} is missing`, cure: 'make-again', sql }];
  if (withoutSpace(found.sql) === withoutSpace(sql)) return [];
  return [{ what: `the ${type} ${name} was changed`, cure: 'make-again', sql: `drop ${type} ${name}; ${sql}` }];
}

function compareColumns(table: string, connection: Connection, pristine: Connection): SchemaFlaw[] {
  const found = readColumns(connection, table);
  const own = readColumns(pristine, table);
  const changed = [...own].filter(([name, column]) => found.get(name) !== column);
  const strange = [...found.keys()].filter((name) => !own.has(name));
  return [
    ...changed.map(([name]) => lost(`the column ${table}.${name} ${found.has(name) ? 'was changed' : 'is missing'}`)),
    // One that may be left out is in nobody's way.
    ...strange
      .filter((name) => /"notnull":1,"dflt_value":null/.test(found.get(name) ?? ''))
      .map((name) => lost(`the column ${table}.${name} is not the log's own`)),
  ];
}

function readColumns(connection: Connection, table: string): ReadonlyMap<string, string> {
  const text = 'select lower(name) as name, lower(type) as type, "notnull", dflt_value, pk from pragma_table_info(?)';
  const columns = connection.prepare(text).all([table]) as { readonly name: string }[];
  return new Map(columns.map((column) => [column.name, JSON.stringify(column)]));
}

/** Triggers and unique indexes can refuse what the runner records. */
function judgeStranger({ type, name, sql }: SchemaObject): SchemaFlaw[] {
  if (type !== 'trigger' && !(type === 'index' && /^create\s+unique/i.test(sql))) return [];
  const what = `the ${type} ${name} is not the log's own, and may keep it from being written`;
  return [{ what, cure: 'drop', sql: `drop ${type} "${name.replaceAll('"', '""')}"` }];
}

function lost(what: string): SchemaFlaw {
  return { what, cure: 'new-log', sql: '' };
}

function withoutSpace(sql: string): string {
  return sql.replace(/\s+/g, '').toLowerCase();
}
