import { markSuspectRuns } from '../shared/old-words.ts';
import type { Dialect } from './sql/dialect.ts';
import { countingOf } from './statements/counted.ts';

/** The statements that make all tables, by version of the schema. */
export function migrationsOf(dialect: Dialect, { types = [], indexes }: OfEngine): readonly (readonly string[])[] {
  return [
    [...types, ...tablesOf(dialect), ...indexes, ...viewsOf(dialect)],
    [`alter table runs add column suspect ${dialect.types.integer} not null default 0`, markSuspectRuns],
  ];
}

/** Statements of one server alone. */
interface OfEngine {
  readonly types?: readonly string[];
  readonly indexes: readonly string[];
}

/** As `store/schema.ts` describes them. */
function tablesOf(dialect: Dialect): readonly string[] {
  return [
    ...passTables(dialect),
    ...eventTables(dialect),
    ...jobTables(dialect),
    ...runTables(dialect),
    ...ofRunsTables(dialect),
    ...incidentTables(dialect),
    ...messageTables(dialect),
    ...metricTables(dialect),
    ...measuredTables(dialect),
    ...accessTables(dialect),
  ];
}

/** `if not exists`: where what makes tables cannot be undone, it is done again. */
function table({ name: engine, keysOf }: Dialect, called: string, columns: readonly string[]): string {
  const kind =
    engine === 'mysql' ? ` engine = InnoDB row_format = dynamic default character set utf8mb4 ${byBytes}` : '';
  return `create table if not exists ${called} (${[...columns, ...keysOf(called)].join(', ')})${kind}`;
}

/** Texts are equal only if all their bytes are. One of the two is a comment: the first of MariaDB, the other of MySQL. */
const byBytes = '/*!80000 collate utf8mb4_0900_bin */ /*M!100600 collate utf8mb4_nopad_bin */';

/** Tables of calls and runs. */
function passTables(dialect: Dialect): readonly string[] {
  const { id, integer, text, name, word } = dialect.types;
  return [
    table(dialect, 'hosts', [
      `id ${id}`,
      `host ${word} not null`,
      `boot_id ${name}`,
      `runner_version ${word} not null`,
      `node_version ${word} not null`,
    ]),
    table(dialect, 'workers', [
      `id ${id}`,
      `kind ${word} not null`,
      `tier ${name}`,
      `state ${word} not null`,
      `host_id ${integer} not null`,
      `pid ${integer} not null`,
      `pid_start_ticks ${integer}`,
      `triggered_by ${word} not null default 'cron'`,
      `scheduled_for ${integer}`,
      `started_at ${integer} not null`,
      `lease_expires_at ${integer}`,
      `finished_at ${integer}`,
      `skip_code ${word}`,
      `reason ${text}`,
    ]),
    table(dialect, 'scripts', [`id ${id}`, `name ${name} not null unique`]),
    table(dialect, 'script_versions', [
      `id ${id}`,
      `script_id ${integer} not null`,
      `content_hash ${word} not null`,
      `first_run_at ${integer} not null`,
      'unique (script_id, content_hash)',
    ]),
  ];
}

function eventTables(dialect: Dialect): readonly string[] {
  const { id, integer, text, name, word } = dialect.types;
  return [
    table(dialect, 'events', [
      `id ${id}`,
      `at ${integer} not null`,
      `event ${word} not null`,
      `worker_id ${integer}`,
      `job_id ${integer}`,
      `run_id ${integer}`,
      `detail ${text}`,
      `actor ${text}`,
    ]),
    table(dialect, 'pauses', [
      `name ${name} not null primary key`,
      `kind ${word} not null default 'pause' check (kind in ('pause', 'fail-fast'))`,
      `until ${integer}`,
      `created_at ${integer} not null`,
    ]),
    table(dialect, 'gone', [
      `handler ${name} not null`,
      `what ${word} not null`,
      `times ${integer} not null`,
      'primary key (handler, what)',
    ]),
  ];
}

function jobTables(dialect: Dialect): readonly string[] {
  const { id, integer, text, name, word, json } = dialect.types;
  return [
    table(dialect, 'jobs', [
      `id ${id}`,
      `name ${name} not null check (char_length(name) between 1 and 512)`,
      `tier ${name}`,
      `host ${word}`,
      `state ${word} not null default 'queued' check (state in ('queued', 'claimed', 'running', 'finished',
        'retrying', 'failed', 'paused', 'cancelled'))`,
      `ready ${integer} default 0`,
      `data ${json} not null default ('{}')`,
      `result ${text}`,
      `priority ${integer} not null default 500 check (priority between -9007199254740991 and 9007199254740991)`,
      `scheduled_for ${integer}`,
      `run_at ${integer} not null default (${dialect.nowMs}) check (run_at between 0 and 8640000000000000)`,
      `started_at ${integer}`,
      `attempts ${integer} not null default 0 check (attempts between 0 and 9007199254740991)`,
      `retry ${name}`,
      `"repeat" ${text}`,
      `missed_policy ${word} not null default 'all' check (missed_policy in ('all', 'once', 'skip'))`,
      `unique_key ${name}`,
      `concurrency_key ${name}`,
      `parent_id ${integer}`,
      `reported_to_parent ${integer} not null default 0`,
      `on_child_failure ${word} check (on_child_failure in ('resume', 'fail'))`,
      `lease_ms ${integer} check (lease_ms between 1 and 8640000000000)`,
      `lease_expires_at ${integer}`,
      `lease_extended ${integer} not null default 0`,
      `claim_token ${name}`,
      `created_at ${integer} not null default (${dialect.nowMs})`,
      `finished_at ${integer}`,
      `reason ${text}`,
      ...(dialect.name === 'mysql' ? mysqlKeys : []),
    ]),
  ];
}

function runTables(dialect: Dialect): readonly string[] {
  const { id, integer, real, text, name, word } = dialect.types;
  return [
    table(dialect, 'runs', [
      `id ${id}`,
      `job_id ${integer} not null`,
      `worker_id ${integer}`,
      `script_id ${integer} not null`,
      `version_id ${integer}`,
      `claim_number ${integer}`,
      `attempt ${integer} not null`,
      `outcome ${word} not null`,
      `left_job ${word}`,
      `scheduled_for ${integer}`,
      `started_at ${integer} not null`,
      `finished_at ${integer}`,
      `timeout_ms ${integer}`,
      `duration_ms ${real}`,
      `user_cpu_ms ${real}`,
      `system_cpu_ms ${real}`,
      `max_rss_bytes ${integer}`,
      `rss_delta_bytes ${integer}`,
      `measured_by ${word}`,
      `pid ${integer}`,
      `pid_start_ticks ${integer}`,
      `exit_code ${integer}`,
      `"signal" ${word}`,
      `reason ${text}`,
      `warning ${text}`,
      `error_name ${text}`,
      `error_message ${text}`,
      `error_stack ${text}`,
      `output_bytes ${integer}`,
      `output_dropped_bytes ${integer}`,
      `output_file ${name}`,
      `output_file_bytes ${integer}`,
      `spool_id ${name}`,
      // PostgreSQL looks for the job of each run that is added, which its writer has locked: a trigger costs nothing then.
      ...(dialect.name === 'mysql' ? ['foreign key (job_id) references jobs (id) on delete cascade'] : []),
    ]),
  ];
}

/** Tables whose rows belong to a run, and are deleted with it. */
function ofRunsTables(dialect: Dialect): readonly string[] {
  const { integer, real, text, name, word } = dialect.types;
  const runRef = `run_id ${integer} not null, foreign key (run_id) references runs (id) on delete cascade`;
  return [
    table(dialect, 'outputs', [runRef, `output ${text} not null`, 'primary key (run_id)']),
    table(dialect, 'counts', [runRef, `name ${name} not null`, `value ${real} not null`, 'primary key (run_id, name)']),
    table(dialect, 'uncompared', [runRef, 'primary key (run_id)']),
    table(dialect, 'deviations', [
      runRef,
      `measure ${word} not null`,
      `name ${name} not null`,
      `value ${real} not null`,
      `usual ${real} not null`,
      `runs ${integer} not null`,
      `since ${integer}`,
      'primary key (run_id, measure, name)',
    ]),
  ];
}

function incidentTables(dialect: Dialect): readonly string[] {
  const { id, integer, text, name, word } = dialect.types;
  return [
    table(dialect, 'incidents', [
      `id ${id}`,
      `subject ${name} not null`,
      `code ${word} not null`,
      `fingerprint ${word} not null default ''`,
      `severity ${word} not null check (severity in ('warning', 'critical'))`,
      `opened_at ${integer} not null`,
      `last_at ${integer} not null`,
      `occurrences ${integer} not null default 1`,
      `succeeded_at ${integer}`,
      `first_run_id ${integer}`,
      `last_run_id ${integer}`,
      `message ${text}`,
      `hint ${text}`,
      `told_at ${integer}`,
      `reminded_at ${integer}`,
      `printed_at ${integer}`,
      `recovered_at ${integer}`,
      `recovery_told_at ${integer}`,
      `acknowledged_at ${integer}`,
      `due_at ${integer}`,
      ...(dialect.name === 'mysql' ? mysqlIncidentKeys : []),
    ]),
  ];
}

/** Tables of messages: their receivers, and those that wait to be sent. */
function messageTables(dialect: Dialect): readonly string[] {
  const { id, integer, text, name, word } = dialect.types;
  return [
    table(dialect, 'tellings', [`id ${id}`, `channel ${name} not null`, `at ${integer} not null`]),
    table(dialect, 'mutes', [
      `name ${name} not null primary key`,
      `until ${integer}`,
      `created_at ${integer} not null`,
    ]),
    table(dialect, 'deliveries', [
      `id ${id}`,
      `kind ${word} not null check (kind in ('alert', 'ping', 'telemetry', 'report'))`,
      `channel ${name} not null`,
      `body ${text} not null`,
      `created_at ${integer} not null`,
      `due_at ${integer}`,
      `attempts ${integer} not null default 0`,
      `reason ${text}`,
    ]),
    table(dialect, 'chores', [`name ${name} not null primary key`, `done_at ${integer} not null`]),
  ];
}

function metricTables(dialect: Dialect): readonly string[] {
  const { integer, real, name, word, blob } = dialect.types;
  return [
    table(dialect, 'counters', [
      `script_id ${integer} not null`,
      `what ${word} not null`,
      `times ${integer} not null`,
      `timed ${integer} not null`,
      `run_ms ${real} not null`,
      `cpu_ms ${real} not null`,
      'primary key (script_id, what)',
    ]),
    table(dialect, 'metrics', [
      `script_id ${integer} not null`,
      `"hour" ${integer} not null`,
      ...['added', 'started', 'ended', 'finished', 'errors', 'failed', 'crashed', 'warned'].map(
        (column) => `${column} ${integer} not null`,
      ),
      ...['run_ms', 'run_min_ms', 'run_max_ms'].map((column) => `${column} ${real}`),
      `run_histogram ${blob}`,
      ...['service_ms', 'service_min_ms', 'service_max_ms'].map((column) => `${column} ${integer}`),
      `service_histogram ${blob}`,
      `cpu_runs ${integer} not null`,
      `cpu_ms ${real}`,
      `max_rss_bytes ${integer}`,
      `late_runs ${integer} not null`,
      ...['late_ms', 'late_max_ms', 'waiting', 'waiting_ms'].map((column) => `${column} ${integer}`),
      'primary key (script_id, "hour")',
    ]),
    table(dialect, 'worker_metrics', [
      `kind ${word} not null`,
      `tier ${name} not null`,
      `"hour" ${integer} not null`,
      ...['workers', 'skipped', 'crashed', 'alive_ms', 'busy_ms', 'jobs', 'max_jobs', 'peak'].map(
        (column) => `${column} ${integer} not null`,
      ),
      ...['alive_min_ms', 'alive_max_ms'].map((column) => `${column} ${integer}`),
      'primary key (kind, tier, "hour")',
    ]),
  ];
}

/** How far runs were told, and which are still to be counted. */
function measuredTables(dialect: Dialect): readonly string[] {
  const { id, integer, real, name, word } = dialect.types;
  return [
    table(dialect, 'told_runs', [
      `run_id ${integer} not null primary key`,
      `started_at ${integer} not null`,
      `is_open ${integer} not null`,
    ]),
    table(dialect, 'uncounted', [
      `id ${id}`,
      `what ${word} not null check (what in ('added', 'run', 'failed'))`,
      `name ${name} not null`,
      `worker_id ${integer}`,
      `outcome ${word}`,
      `left_job ${word}`,
      ...['started_at', 'finished_at', 'late_ms', 'service_ms'].map((column) => `${column} ${integer}`),
      ...['duration_ms', 'cpu_ms'].map((column) => `${column} ${real}`),
      `max_rss_bytes ${integer}`,
      `warned ${integer} not null`,
      `counts_start ${integer} not null`,
      `counts_end ${integer} not null`,
    ]),
  ];
}

/** Tables of access tokens and machines. */
function accessTables(dialect: Dialect): readonly string[] {
  const { id, integer, name, word } = dialect.types;
  return [
    table(dialect, 'tokens', [
      `id ${id}`,
      `name ${name} not null unique`,
      `hash ${word} not null unique`,
      `permission ${word} not null check (permission in ('read', 'manage'))`,
      `created_at ${integer} not null`,
      `expires_at ${integer}`,
      `last_used_at ${integer}`,
    ]),
    table(dialect, 'machines', [
      `host ${word} not null primary key`,
      `seen_at ${integer} not null`,
      `clock_offset_ms ${integer} not null`,
      `runner_version ${word} not null`,
    ]),
    table(dialect, 'copies', [
      `host ${word} not null`,
      `tier ${name} not null`,
      `name ${name} not null`,
      `content_hash ${word}`,
      `host_pattern ${name}`,
      'primary key (host, name)',
    ]),
    // One row for each thing that only one transaction at a time may do: it is locked meanwhile.
    table(dialect, 'mutexes', [`name ${name} not null primary key`]),
  ];
}

/** An index of MySQL's holds all rows: what makes a row one of few is a column, which is null in all others. */
const mysqlKeys = [
  'script_key varchar(520) generated always as (case when tier is not null then name end) virtual',
  `script_host varchar(64) generated always as (coalesce(host, '')) virtual`,
  'open_key varchar(520) generated always as (case when finished_at is null then unique_key end) virtual',
  `blocked_key varchar(520) generated always as (case when ready = 2 then coalesce(concurrency_key, '') end) virtual`,
  // Not every server's indexes descend.
  'urgency bigint generated always as (-priority) virtual',
];

const mysqlIncidentKeys = [
  'open_subject varchar(520) generated always as (case when recovered_at is null then subject end) virtual',
];

/** Every transition of a job, run or worker; and what has happened to the jobs of each handler since the log began. */
function viewsOf(dialect: Dialect): readonly string[] {
  return [
    `create or replace view activity as
      select started_at as at, case state when 'skipped' then 'worker-skipped' else 'worker-started' end as event,
        id as worker_id, ${dialect.integer('null')} as job_id, ${dialect.integer('null')} as run_id, case state when 'skipped' then reason end as detail,
        null as actor, null as warning from workers
      union all select finished_at, case state when 'crashed' then 'worker-crashed' else 'worker-finished' end,
        id, ${dialect.integer('null')}, ${dialect.integer('null')}, reason, null, null from workers where state in ('finished', 'crashed')
      union all select created_at, 'job-queued', ${dialect.integer('null')}, id, ${dialect.integer('null')}, null, null, null from jobs where tier is null
      union all select started_at, 'run-started', worker_id, job_id, id, null, null, null from runs
      union all select finished_at,
        case when outcome = 'released' and (left_job is null or left_job <> 'cancelled') then 'job-released'
          when left_job is null then 'job-finished' else 'job-' || left_job end,
        worker_id, job_id, id, reason, null, warning from runs where finished_at is not null
      union all select at, event, worker_id, job_id, run_id, detail, actor, null from events`,
    `create or replace view totals as select handler, what, sum(times) as times
      from (select handler, what, times from gone
        union all ${countingOf(dialect).countsOf({ jobs: 'true', runs: 'true', events: 'true' })}) as counted
      group by handler, what`,
  ];
}
