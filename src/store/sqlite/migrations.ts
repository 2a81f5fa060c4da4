import { type Kysely, type Migration, Migrator, sql } from 'kysely';
import type { ActivityLog } from '../schema.ts';

/** Brings the tables to the newest schema, all or nothing, once however many processes try. */
export async function migrate(db: Kysely<ActivityLog>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  await sql`pragma user_version = ${sql.lit(Object.keys(migrations).length)}`.execute(db);
}

/** The five tables, the indexes that the report reads from, and a view for people. */
const activityLog: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};

/**
 * Whoever adds a job by plain SQL does so with an SQLite of their own, PHP's for example, which must read
 * this schema: 3.26 on Enterprise Linux 8, 3.34 on 9. So no STRICT tables (3.37), no `unixepoch()` (3.38).
 */
const NOW_MS = "(cast((julianday('now') - 2440587.5) * 86400000 as integer))";

/** What a date can hold. */
const isInstant = (column: string): string =>
  `(typeof(${column}) = 'integer' and ${column} between -8640000000000000 and 8640000000000000)`;

/** What only the runner sets; but a blob there would have readers take bytes for a number. */
const counts =
  'attempts retries_by_handler delay_by_handler retry_factor retry_longest_ms is_told reserves timeouts releases buries kicks crashes';
const instants = 'started_at finished_at leased_until';
const numbersOfRows = 'parent_id claimed_by';
const texts = 'result repeat unique_key group_key claim_token reason';

const areAll = (columns: string, check: (column: string) => string): string =>
  columns.split(' ').map(check).join(' and ');

const isOneOf =
  (types: string) =>
  (column: string): string =>
    `typeof(${column}) in (${types})`;

const statements = [
  `create table workers (
    id integer primary key,
    kind text not null,
    tier text,
    state text not null check (state in ('running', 'finished', 'skipped', 'crashed')),
    host text not null,
    boot_id text,
    pid integer not null,
    pid_start_ticks integer,
    scheduled_for integer,
    started_at integer not null,
    finished_at integer,
    reason text,
    called_by text not null default 'schedule' check (called_by in ('schedule', 'due', 'hand')),
    runner_version text not null,
    node_version text not null
  )`,
  // The second guard of the tier lock: the file itself refuses two live workers of one tier.
  `create unique index workers_one_running_per_tier on workers (tier) where state = 'running'`,
  `create index workers_by_tier on workers (tier, started_at)`,
  `create index workers_by_end on workers (finished_at)`,

  // A job's number is never used twice: who kept that of a deleted one must not act on another.
  `create table jobs (
    id integer primary key autoincrement
      constraint "a job's id is a whole number from 1 to 9007199254740991"
      check (id between 1 and 9007199254740991),
    name text not null
      constraint "a job's name is text of 1 to 255 characters"
      check (typeof(name) = 'text' and length(name) between 1 and 255 and instr(name, char(0)) = 0),
    tier text,
    state text not null default 'queued' check (state in
      ('queued', 'running', 'finished', 'retrying', 'failed', 'paused', 'cancelled')),
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
    attempts integer not null default 0,
    max_attempts integer
      constraint "a job's max_attempts is a whole number from 1 on"
      check (max_attempts is null or (typeof(max_attempts) = 'integer' and max_attempts > 0)),
    retries_by_handler integer not null default 0,
    retry_delay_ms integer
      constraint "a job's retry_delay_ms is a whole number from 0 on"
      check (retry_delay_ms is null or (typeof(retry_delay_ms) = 'integer' and retry_delay_ms >= 0)),
    delay_by_handler integer not null default 0,
    retry_factor integer not null default 1,
    retry_longest_ms integer not null default 60000,
    on_crash text check (on_crash in ('retry', 'skip', 'fail')),
    repeat text,
    missed text not null default 'all' check (missed in ('all', 'once', 'skip')),
    unique_key text,
    group_key text,
    parent_id integer,
    is_told integer not null default 0,
    on_child_failure text not null default 'resume' check (on_child_failure in ('resume', 'fail')),
    lease_ms integer
      constraint "a job's lease_ms is a whole number from 1 to 8640000000000"
      check (lease_ms is null or (typeof(lease_ms) = 'integer' and lease_ms between 1 and 8640000000000)),
    leased_until integer,
    claimed_by integer,
    claim_token text,
    reserves integer not null default 0,
    timeouts integer not null default 0,
    releases integer not null default 0,
    buries integer not null default 0,
    kicks integer not null default 0,
    crashes integer not null default 0,
    created_at integer not null default ${NOW_MS}
      constraint "a job's created_at is in milliseconds since 1970" check (${isInstant('created_at')}),
    finished_at integer,
    reason text,
    constraint "a job's counters are whole numbers" check (${areAll(counts, isOneOf("'integer'"))}),
    constraint "a job's instants are in milliseconds since 1970"
      check (${areAll(instants, (column) => `(${column} is null or ${isInstant(column)})`)}),
    constraint "a job's parent_id and claimed_by are whole numbers"
      check (${areAll(numbersOfRows, isOneOf("'integer', 'null'"))}),
    constraint "a job's texts are text" check (${areAll(texts, isOneOf("'text', 'null'"))})
  )`,
  // Open jobs are few, ended ones are many: a partial index stays small for ever.
  `create index jobs_open on jobs (tier, state, run_at, id)
    where finished_at is null and tier is not null`,
  // A script is never twice under way: whatever is left of a pass is worked off, not added again.
  `create unique index jobs_one_open_per_script on jobs (name)
    where finished_at is null and tier is not null`,
  `create index jobs_ended on jobs (state, finished_at) where finished_at is not null`,
  // What waits in the queue, in the order in which it is taken; by name for who takes only some.
  `create index jobs_waiting on jobs (priority desc, run_at, id, name, group_key)
    where tier is null and state in ('queued', 'retrying')`,
  `create index jobs_waiting_by_name on jobs (name, priority desc, run_at, id, group_key)
    where tier is null and state in ('queued', 'retrying')`,
  `create index jobs_leased on jobs (leased_until) where leased_until is not null`,
  `create unique index jobs_unique_key on jobs (unique_key)
    where unique_key is not null and finished_at is null`,
  `create index jobs_repeating on jobs (name) where repeat is not null and finished_at is null`,
  `create index jobs_by_parent on jobs (parent_id, state) where parent_id is not null`,
  // Whoever adds a job to the queue, by whichever program, has told of it.
  `create trigger jobs_added after insert on jobs when new.tier is null begin
    insert into activity (at, job_id, event) values (new.created_at, new.id,
      case new.state when 'paused' then 'job-paused' else 'job-queued' end);
  end`,

  // Its number also names a run's files: it is never used twice, though the newest rows be deleted.
  `create table runs (
    id integer primary key autoincrement,
    job_id integer not null references jobs (id) on delete cascade,
    worker_id integer references workers (id),
    script text not null,
    tier text,
    attempt integer not null,
    outcome text not null check (outcome in
      ('running', 'succeeded', 'failed', 'timed-out', 'killed', 'crashed', 'not-started', 'released')),
    scheduled_for integer,
    started_at integer not null,
    finished_at integer,
    timeout_ms integer,
    duration_ms real,
    user_cpu_ms real,
    system_cpu_ms real,
    max_rss_bytes integer,
    rss_change_bytes integer,
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
    content_hash text,
    output_bytes integer,
    output_dropped_bytes integer,
    output_file text,
    output_file_bytes integer,
    output text,
    spool_id text
  )`,
  `create unique index runs_by_spool_id on runs (spool_id) where spool_id is not null`,
  // Covers the report's summary, so that it never touches the rows with their output.
  `create index runs_summary on runs (script, started_at, outcome, duration_ms, user_cpu_ms,
    system_cpu_ms, max_rss_bytes)`,
  `create index runs_by_job on runs (job_id)`,
  `create index runs_by_worker on runs (worker_id)`,
  `create index runs_by_start on runs (started_at)`,
  `create index runs_running on runs (worker_id) where outcome = 'running'`,

  `create index runs_with_file on runs (job_id, output_file_bytes) where output_file is not null`,

  `create table activity (
    id integer primary key,
    at integer not null,
    worker_id integer,
    job_id integer,
    run_id integer,
    event text not null,
    detail text
  )`,
  `create index activity_by_time on activity (at)`,

  `create table pauses (
    name text primary key,
    kind text not null default 'pause' check (kind in ('pause', 'fuse')),
    until integer,
    created_at integer not null
  ) without rowid`,

  `create view runs_readable as select
    id, script, attempt, outcome,
    strftime('%Y-%m-%d %H:%M:%S', started_at / 1000.0, 'unixepoch', 'localtime') as started,
    strftime('%Y-%m-%d %H:%M:%S', finished_at / 1000.0, 'unixepoch', 'localtime') as finished,
    round(duration_ms / 1000.0, 3) as seconds,
    round(user_cpu_ms + system_cpu_ms) as cpu_ms,
    round(max_rss_bytes / 1048576.0, 1) as max_rss_mib,
    measured_by, exit_code, signal, reason, warning, output
  from runs order by started_at desc, id desc`,
];

/** In order of their names; one that was released is never changed again. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-activity-log': activityLog,
};
