/**
 * The tables of the log, each once: rows, statements that make the tables, fields of the spool and of `migrate` are
 * derived from here. Instants are UTC epoch milliseconds in every table; unknown figures are null, never 0.
 *
 * A program that adds a job by plain SQL uses an SQLite of its own, PHP's for example, which must read this schema:
 * 3.26 on Enterprise Linux 8, 3.34 on 9. So no STRICT tables (3.37), no `unixepoch()` (3.38).
 */
import {
  blob,
  count,
  flag,
  id,
  instant,
  integer,
  json,
  name,
  now,
  type RowOf,
  real,
  table,
  text,
  unique,
  word,
} from './columns.ts';
import {
  childFailurePolicies,
  deliveryKinds,
  endings,
  incidentEndings,
  type JobState,
  jobStates,
  measures,
  measuringWays,
  missedPolicies,
  type Outcome,
  pauseKinds,
  type SkipCode,
  type StoredEvent,
  severities,
  tokenPermissions,
  triggers,
  type WorkerKind,
  workerStates,
} from './words.ts';

const isWhole = (column: string, least: number, most: number): string =>
  `typeof(${column}) = 'integer' and ${column} between ${least} and ${most}`;

/** The range of a JavaScript date, in epoch milliseconds. */
const LAST_MS = 8_640_000_000_000_000;
const isInstant = (column: string): string => `(${isWhole(column, -LAST_MS, LAST_MS)})`;

/** The largest whole number of JavaScript. */
const MOST = Number.MAX_SAFE_INTEGER;

const forAll = (columns: string, check: (column: string) => string): string =>
  columns.split(' ').map(check).join(' and ');

/** Runs this long have an index of their own. Every other run ends in the hour in which it began, or in the next one. */
export const isLong = 'finished_at - started_at not between 0 and 3600000';

export const tables = {
  /** A host as it was booted, with the versions that ran on it: what many workers share. */
  hosts: table({
    id,
    host: word,
    boot_id: name.orNull,
    runner_version: word,
    node_version: word,
  }),

  /** One invocation that processes jobs. Its number also names the files of its runs. */
  workers: table(
    {
      id: id.neverReused,
      kind: word.as<WorkerKind>(),
      /** Null: it processes jobs of the queue. */
      tier: name.orNull,
      state: word.oneOf(workerStates, 'sqlite'),
      /** With `pid` and `pid_start_ticks`: who it is. A reused pid or a reboot changes one of them. */
      host_id: integer,
      pid: count,
      pid_start_ticks: count.orNull,
      triggered_by: word.oneOf(triggers, 'sqlite').default('cron'),
      /** The person who called it: `ada`, or by the dashboard `token laptop`; null: nobody did. */
      actor: text.orNull,
      /** Beginning of the period that the pass stands for. */
      scheduled_for: instant.orNull,
      started_at: instant,
      /** Until when other machines believe that it lives; null: its process tells. */
      lease_expires_at: instant.orNull,
      finished_at: instant.orNull,
      skip_code: word.as<SkipCode>().orNull,
      /** Why it was skipped, stopped early, or is known to have crashed: one sentence. */
      reason: text.orNull,
    },
    {
      indexes: {
        // The second guard of the tier lock: the file itself refuses two live workers of one tier.
        workers_running: unique({
          sqlite: `(tier) where state = 'running'`,
          postgres: `(tier, host_id) where state = 'running'`,
        }),
        workers_by_tier: '(tier, started_at)',
        // By the start alone: joined with tiers, MySQL would read all that an index by these has.
        workers_by_start: { mysql: '(started_at)' },
        workers_in_order: {
          sqlite: `(tier) where kind = 'tier'`,
          postgres: `(tier, id) where kind = 'tier'`,
          mysql: '(kind, tier, id)',
        },
        // They are few: without it the last one is looked for among all calls.
        workers_by_hand: { sqlite: `(tier, started_at) where triggered_by = 'manual'` },
        workers_at_work: { postgres: `(started_at) where state = 'running'`, mysql: '(state, started_at)' },
        // The few that have died: health checks count them, however many others there are.
        workers_crashed: { all: `(finished_at) where state = 'crashed'`, mysql: '(state, finished_at)' },
        workers_long: { sqlite: `(finished_at) where ${isLong}` },
        workers_by_end: { postgres: '(finished_at)' },
      },
    },
  ),

  /** Name of a script or handler: `hourly/clean-tmp`, `queue/mail/welcome`. */
  scripts: table({ id, name: name.unique }),

  /** A content that a script has had, and since when it runs. */
  script_versions: table(
    {
      id,
      script_id: integer,
      /** SHA-256 of the script's file, hex; of a Node script with what it imports of the root. */
      content_hash: word,
      first_run_at: instant,
    },
    { unique: ['script_id', 'content_hash'] },
  ),

  /**
   * One piece of work. A script of a tier has one row for good, which its passes queue again and again;
   * anybody adds others to the queue, by plain SQL too, which have no tier.
   */
  jobs: table(
    {
      /** Never used twice, by `nextNumber`: who kept that of a deleted one must not act on another. */
      id: id.check({
        sqlite: ["a job's id is a whole number from 1 to 9007199254740991", `id between 1 and ${MOST}`],
      }),
      /** A script's name, or of a job of the queue that of its handler without `queue/`. */
      name: name.check({
        sqlite: [
          "a job's name is text of 1 to 255 characters",
          `typeof(name) = 'text' and length(name) between 1 and 255 and instr(name, char(0)) = 0`,
        ],
        servers: 'char_length(name) between 1 and 512',
      }),
      /** Null: it is one of the queue. */
      tier: name.orNull,
      /** The machine that the row of a script for every machine belongs to; null: any machine. */
      host: word.orNull,
      state: word.oneOf(jobStates).default('queued'),
      /**
       * For a waiting job of the queue: 1 once its time has come, 0 until then or until somebody has looked, 2 in a
       * group that was full. Null: it does not wait. It decides which of three small indexes contains the row.
       */
      ready: integer.orNull.default(0),
      /** JSON, for the handler. */
      data: json.default('{}').check({
        sqlite: [
          "a job's data is JSON of at most 1 MiB",
          `typeof(data) = 'text' and json_valid(data) and instr(data, char(0)) = 0
            and length(cast(data as blob)) <= 1048576`,
        ],
      }),
      /** JSON from the handler; null: none. */
      result: text.orNull,
      /** Higher ones are taken first. */
      priority: integer.default(500).check({
        sqlite: [
          "a job's priority is a whole number from -9007199254740991 to 9007199254740991",
          isWhole('priority', -MOST, MOST),
        ],
        servers: `priority between ${-MOST} and ${MOST}`,
      }),
      /** For a script, the start of its period; for a repeating job, the time for which it was to run, retries aside. */
      scheduled_for: instant.orNull.check({
        sqlite: [
          "a job's scheduled_for is in milliseconds since 1970",
          `scheduled_for is null or ${isInstant('scheduled_for')}`,
        ],
      }),
      run_at: instant.default(now).check({
        sqlite: ["a job's run_at is in milliseconds since 1970", isWhole('run_at', 0, LAST_MS)],
        servers: `run_at between 0 and ${LAST_MS}`,
      }),
      /** When its last try began. */
      started_at: instant.orNull,
      /** Tries that began since it was added, repeated or kicked. */
      attempts: count.default(0).check({
        sqlite: ["a job's attempts are a whole number from 0 to 9007199254740991", isWhole('attempts', 0, MOST)],
        servers: `attempts between 0 and ${MOST}`,
      }),
      /** `3`, `3 5m`, `3 exponential 30s 6h`, `- 5m`; null, or `-`: as its handler says. */
      retry: name.orNull,
      /** The rule by which it is queued again once it has finished. */
      repeat: text.orNull,
      missed_policy: word.oneOf(missedPolicies).default('all'),
      /** No other job that has not ended has it. */
      unique_key: name.orNull,
      /** Jobs with the same key share a limit of jobs at the same time. */
      concurrency_key: name.orNull,
      parent_id: integer.orNull,
      /** 1: its parent was informed of its end, and has finished since. */
      reported_to_parent: flag.default(0),
      /** Null: `resume`. */
      on_child_failure: word.oneOf(childFailurePolicies).orNull,
      /** Null: the settings decide. */
      lease_ms: integer.orNull.check({
        sqlite: [
          "a job's lease_ms is a whole number from 1 to 8640000000000",
          `lease_ms is null or (${isWhole('lease_ms', 1, 8_640_000_000_000)})`,
        ],
        servers: 'lease_ms between 1 and 8640000000000',
      }),
      /** Until when its claim holds unless it is renewed; null: it is not claimed, or is a script's. */
      lease_expires_at: instant.orNull,
      /** 1: its worker was late once, and was given more time. */
      lease_extended: flag.default(0),
      /**
       * Only the holder of this token may settle the job. It is `<worker>.<n>` for a worker of the runner, random for any
       * other holder. It also names the files of the run. Null: nobody holds the job.
       */
      claim_token: name.orNull,
      created_at: instant.default(now).check({
        sqlite: ["a job's created_at is in milliseconds since 1970", isInstant('created_at')],
      }),
      /** Null: it has not ended. */
      finished_at: instant.orNull,
      /** One sentence about the reason for its state. */
      reason: text.orNull,
      /**
       * For a script that may have to wait for others, or for its time of day: 0 from when it is queued, 1 once it may run.
       * Null: it does not wait.
       */
      links_met: flag.orNull
        .check({
          sqlite: [
            "a job's links_met is 0 or 1",
            "links_met is null or (typeof(links_met) = 'integer' and links_met in (0, 1))",
          ],
        })
        .since(5),
      /** For a script: ends that it has used, as JSON: `finished_at` by the name of the script that it waited for. */
      ends_used: text.orNull
        .check({ sqlite: ["a job's ends_used is text", "typeof(ends_used) in ('text', 'null')"] })
        .since(5),
    },
    {
      sqliteChecks: {
        // A run_at this small is before March 1973. It may be right on a machine whose clock is wrong by decades.
        "a job's run_at is in milliseconds since 1970, not in seconds": `not (run_at between 1 and 99999999999
          and created_at > 99999999999 and tier is null and scheduled_for is null and started_at is null)`,
        'a job is ready or not as long as it waits in the queue': `case when tier is null
          and state in ('queued', 'retrying') then ready is not null and ready in (0, 1, 2) else ready is null end`,
        // Only the runner sets them. They are checked all the same: readers would take the bytes of a blob for a number.
        "a job's counters are whole numbers": forAll(
          'reported_to_parent lease_extended',
          (column) => `typeof(${column}) in ('integer')`,
        ),
        "a job's instants are in milliseconds since 1970": forAll(
          'started_at finished_at lease_expires_at',
          (column) => `(${column} is null or ${isInstant(column)})`,
        ),
        "a job's parent_id is a whole number": `typeof(parent_id) in ('integer', 'null')`,
        "a job's texts are text": forAll(
          'host result retry repeat unique_key concurrency_key claim_token reason',
          (column) => `typeof(${column}) in ('text', 'null')`,
        ),
      },
      computedOnMysql: [
        'script_key varchar(520) generated always as (case when tier is not null then name end) virtual',
        `script_host varchar(64) generated always as (coalesce(host, '')) virtual`,
        'open_key varchar(520) generated always as (case when finished_at is null then unique_key end) virtual',
        `blocked_key varchar(520) generated always as (case when ready = 2 then coalesce(concurrency_key, '') end) virtual`,
        // Not every server's indexes descend.
        'urgency bigint generated always as (-priority) virtual',
      ],
      indexes: {
        // A script is never twice under way: it has one row, or one for each host.
        jobs_of_scripts: unique({
          all: `(name, coalesce(host, '')) where tier is not null`,
          mysql: '(script_key, script_host)',
        }),
        // Due jobs, in the order in which they are taken; by name for a worker that takes only some.
        jobs_ready: {
          sqlite: '(priority desc, run_at, id, name, concurrency_key) where ready = 1',
          postgres: '(priority desc, run_at, id) where ready = 1',
          mysql: '(ready, urgency, run_at, id)',
        },
        jobs_ready_by_name: {
          sqlite: '(name, priority desc, run_at, id, concurrency_key) where ready = 1',
          postgres: '(name, priority desc, run_at, id) where ready = 1',
          mysql: '(ready, name, urgency, run_at, id)',
        },
        jobs_delayed: { all: '(run_at, priority desc) where ready = 0', mysql: '(ready, run_at, urgency)' },
        // Blocked: due, in a group that was full when a claim came to it. Claims pass by them, however many they are.
        jobs_blocked: {
          all: `(coalesce(concurrency_key, ''), priority desc, run_at, id) where ready = 2`,
          mysql: '(blocked_key, urgency, run_at, id)',
        },
        jobs_claimed: {
          sqlite: '(lease_expires_at) where claim_token is not null',
          postgres: '(claim_token) where claim_token is not null',
          mysql: '(claim_token)',
        },
        jobs_unique_key: unique({
          all: '(unique_key) where unique_key is not null and finished_at is null',
          mysql: '(open_key)',
        }),
        jobs_by_parent: { all: '(parent_id, state) where parent_id is not null', mysql: '(parent_id, state)' },
        jobs_ended: {
          all: '(state, finished_at) where finished_at is not null and tier is null',
          mysql: '(state, finished_at)',
        },
        jobs_added: {
          sqlite: '(created_at) where tier is null',
          // Few are looked for by it, and each change of a job would add to it: it knows of each 128 pages what may be there.
          postgres: 'using brin (created_at int8_minmax_multi_ops)',
          mysql: '(created_at)',
        },
      },
    },
  ),

  /**
   * One attempt at a job, in a child process. The row is written when the run ends, or earlier once it
   * has lasted a moment.
   */
  runs: table(
    {
      id,
      // PostgreSQL looks for the job of each run that is added, which its writer has locked: a trigger costs nothing then.
      job_id: integer.partOf('jobs', 'postgres'),
      /** Null: a caller that is no worker of the runner ran it. */
      worker_id: integer.orNull,
      script_id: integer,
      /** Null: its content is unknown. */
      version_id: integer.orNull,
      /** The number in its claim's token after the worker's number: both together name its files. */
      claim_number: integer.orNull,
      /** 1 for the first try. */
      attempt: count,
      outcome: word.oneOf(['running', ...endings], 'sqlite'),
      /** State in which it left its job; null: `finished`, or it has not ended. */
      left_job: word.as<JobState>().orNull,
      /** When it was due: for a script by its crontab line or its own schedule, not the start of its period. */
      scheduled_for: instant.orNull,
      started_at: instant,
      finished_at: instant.orNull,
      /** For a run that lasts: the time limit at which it is ended. */
      timeout_ms: count.orNull,
      /** Microseconds: a whole number takes half the bytes of a fraction. */
      duration_us: count.orNull,
      user_cpu_us: count.orNull,
      system_cpu_us: count.orNull,
      max_rss_bytes: count.orNull,
      /** By how much the memory of a child that serves many jobs has grown with this one. */
      rss_delta_bytes: integer.orNull,
      measured_by: word.oneOf(measuringWays, 'sqlite').orNull,
      pid: count.orNull,
      pid_start_ticks: count.orNull,
      exit_code: integer.orNull,
      signal: word.orNull,
      /** How it ended, in one sentence; null when it succeeded. */
      reason: text.orNull,
      /** A remark that did not end the run: memory above its soft limit. */
      warning: text.orNull,
      error_name: text.orNull,
      error_message: text.orNull,
      error_stack: text.orNull,
      /** Bytes the script wrote in all; `outputs` holds head and tail of them, up to 64 KB. */
      output_bytes: count.orNull,
      /** Bytes that are kept nowhere. */
      output_dropped_bytes: count.orNull,
      /** File name in `.runner/output/` of output too long for the log, gzip-compressed. */
      output_file: name.orNull,
      output_file_bytes: count.orNull,
      /** Identifies a run that was recorded without the log, so that it is replayed once. */
      spool_id: name.orNull,
      /** 1: it succeeded, though its output reports a failure. */
      suspect: flag.as<0 | 1>().default(0),
    },
    {
      indexes: {
        runs_by_script: {
          all: '(script_id, started_at, id, outcome)',
          // With their outcome: the last success of a script that never succeeds is looked for in all of its runs. With
          // their figures: a report reads nothing else of a month's runs.
          sqlite: '(script_id, started_at, id, outcome, duration_us, user_cpu_us + system_cpu_us, max_rss_bytes)',
        },
        // By the start alone: joined with scripts, MySQL would read all that an index by these has.
        runs_by_start: { mysql: '(started_at)' },
        runs_by_job: { sqlite: '(job_id)', postgres: '(job_id, id)' },
        runs_running: {
          sqlite: `(worker_id) where outcome = 'running'`,
          postgres: `(started_at) where outcome = 'running'`,
          mysql: '(outcome, started_at)',
        },
        runs_with_file: {
          sqlite: '(job_id, output_file_bytes) where output_file is not null',
          postgres: '(job_id) where output_file is not null',
          mysql: '(output_file)',
        },
        runs_by_end: { postgres: '(finished_at)', mysql: '(finished_at)' },
        runs_by_spool_id: unique({ sqlite: '(spool_id) where spool_id is not null' }),
        runs_by_spool: unique({ postgres: '(spool_id) where spool_id is not null', mysql: '(spool_id)' }),
        runs_long: { sqlite: `(finished_at) where ${isLong}` },
      },
    },
  ),

  /** The output of a run, apart from its row, so that reports never read it. */
  outputs: table({ run_id: integer.partOf('runs'), output: text }, { key: ['run_id'] }),

  /** Transitions that no other row records. */
  events: table(
    {
      id,
      at: instant,
      event: word.as<StoredEvent>(),
      worker_id: integer.orNull,
      job_id: integer.orNull,
      run_id: integer.orNull,
      /** Values of the event for people: a name, a reason. No code reads it. */
      detail: text.orNull,
      /** The person: the user `ada`, or of the API `token laptop`; null: a worker, or nobody knows. */
      actor: text.orNull,
    },
    {
      indexes: {
        events_by_time: '(at)',
        events_of_jobs: { all: '(job_id) where job_id is not null', mysql: '(job_id)' },
      },
    },
  ),

  /** Pauses of tiers, scripts and jobs. */
  pauses: table(
    {
      /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
      name,
      /** `fail-fast`: due jobs fail instead of waiting. */
      kind: word.oneOf(pauseKinds).default('pause'),
      /** Null: until it is resumed. */
      until: instant.orNull,
      created_at: instant,
      /** The person who paused it; null: unknown. */
      actor: text.orNull,
    },
    { key: ['name'] },
  ),

  /** Counts of deleted rows: no count ever becomes smaller. */
  gone: table({ handler: name, what: word, times: count }, { key: ['handler', 'what'] }),

  /**
   * The events of one script or handler in one hour. All values can be merged: counts and sums are added, minima and
   * maxima keep the extreme. A value that no run has reported is null.
   */
  metrics: table(
    {
      script_id: integer,
      /** When it begins, in UTC. */
      hour: instant,
      /** Jobs of the queue that were added. */
      added: count,
      /** Runs that began, and those that ended. */
      started: count,
      ended: count,
      /** Runs that finished their job; that failed, and their job is tried again; that failed it, or jobs that failed without one. */
      finished: count,
      errors: count,
      failed: count,
      crashed: count,
      /** Runs that succeeded with a warning because their output reports a failure. */
      warned: count,
      /** How long the runs that ended took. The histogram says how many of the durations are known. */
      run_ms: real.orNull,
      run_min_ms: real.orNull,
      run_max_ms: real.orNull,
      run_histogram: blob.orNull,
      /** For queued jobs that finished or failed: the time since they were added. */
      service_ms: count.orNull,
      service_min_ms: count.orNull,
      service_max_ms: count.orNull,
      service_histogram: blob.orNull,
      /** Runs whose CPU time is known, and that time. */
      cpu_runs: count,
      cpu_ms: real.orNull,
      max_rss_bytes: count.orNull,
      /** First tries of which it is known when they should have begun, and how much later they did. */
      late_runs: count,
      late_ms: count.orNull,
      late_max_ms: count.orNull,
      /** Jobs that were due and waited as the hour ended, and since when the longest did; null: nobody looked then. */
      waiting: count.orNull,
      waiting_ms: count.orNull,
    },
    { key: ['script_id', 'hour'] },
  ),

  /** The activity of workers of one kind in one hour. */
  worker_metrics: table(
    {
      kind: word.as<WorkerKind>(),
      /** `queue` for workers that process the queue. */
      tier: name,
      hour: instant,
      /** Workers that were active during the hour, and calls that were skipped. */
      workers: count,
      skipped: count,
      crashed: count,
      /** Within this hour, of all of them: how long they were there, and how long runs took. */
      alive_ms: count,
      /** The shortest and the longest that one of them was there within this hour; null: nobody was. */
      alive_min_ms: count.orNull,
      alive_max_ms: count.orNull,
      busy_ms: count,
      /** Runs that finished or failed their job: of all, and the most of one worker. */
      jobs: count,
      max_jobs: count,
      /** The most workers, or runs, at the same time. */
      peak: count,
    },
    { key: ['kind', 'tier', 'hour'] },
  ),

  /**
   * Events that no hour has counted, and that will be missing in their table when it is counted: the row was deleted
   * before its hour was closed, or written after that.
   */
  uncounted: table(
    {
      id,
      /** `failed`: without a run. */
      what: word.oneOf(['added', 'run', 'failed']),
      /** As in `scripts`. */
      name,
      worker_id: integer.orNull,
      outcome: word.as<Outcome>().orNull,
      left_job: word.as<JobState>().orNull,
      started_at: instant.orNull,
      finished_at: instant.orNull,
      late_ms: count.orNull,
      service_ms: count.orNull,
      duration_us: count.orNull,
      cpu_us: count.orNull,
      max_rss_bytes: count.orNull,
      warned: flag,
      /** 1: its beginning is still to be counted; its end. */
      counts_start: flag,
      counts_end: flag,
    },
    {
      indexes: {
        uncounted_starts: { all: '(started_at) where counts_start = 1', mysql: '(counts_start, started_at)' },
        uncounted_ends: { all: '(finished_at) where counts_end = 1', mysql: '(counts_end, finished_at)' },
      },
    },
  ),

  /** A number that a script has reported of a run. */
  counts: table({ run_id: integer.partOf('runs'), name, value: real }, { key: ['run_id', 'name'] }),

  /** In what a run was unlike those before it. Milliseconds, bytes, or whatever a script has counted. */
  deviations: table(
    {
      run_id: integer.partOf('runs'),
      measure: word.oneOf(measures, 'sqlite'),
      /** The name of a count; '' for other measures. */
      name: name.default(''),
      value: real,
      /** The median of earlier runs; for growing memory, its value weeks ago. */
      usual: real,
      /** How many runs it was compared with. */
      runs: count,
      /** Since when memory has been growing; null: the deviation is not a growth. */
      since: instant.orNull,
    },
    { key: ['run_id', 'measure', 'name'] },
  ),

  /** A problem of one subject, from its first sign until it is over. */
  incidents: table(
    {
      id: id.neverReused,
      /** A script or handler (`hourly/clean-tmp`, `queue/mail/welcome`), a tier, `queue`, `log`, `disk`, `alerts`. */
      subject: name,
      /** `script-failing`, `script-suspect`, or the code of the check that has found it. */
      code: word,
      /** Distinguishes the errors of a script; '' for findings of checks. */
      fingerprint: word.default(''),
      severity: word.oneOf(severities),
      /** When it was first seen. */
      opened_at: instant,
      last_at: instant,
      /** Failures, or findings, so far. */
      occurrences: count.default(1),
      /** For a handler's failures: when a job of it first succeeded since the last one; null: never. */
      succeeded_at: instant.orNull,
      first_run_id: integer.orNull,
      last_run_id: integer.orNull,
      /** One sentence each: why the last run failed, or the finding of a check; and the cure. Both are the latest ones. */
      message: text.orNull,
      hint: text.orNull,
      /** When the channels first got an alert about it; null: not yet, or none is needed. */
      told_at: instant.orNull,
      reminded_at: instant.orNull,
      /** When a pass under cron last printed it, for cron's mail; null: not yet, or it has printed that it is over. */
      printed_at: instant.orNull,
      /** Null: it is not over. */
      recovered_at: instant.orNull,
      recovery_told_at: instant.orNull,
      /** Since then nobody gets reminders of it. */
      acknowledged_at: instant.orNull,
      /** When it may need an alert; null: not before something happens. */
      due_at: instant.orNull,
      /** Null: it is not over, or it got well. */
      ending: word.oneOf(incidentEndings, 'sqlite').orNull,
    },
    {
      computedOnMysql: [
        'open_subject varchar(520) generated always as (case when recovered_at is null then subject end) virtual',
      ],
      indexes: {
        incidents_open: unique({
          all: '(subject, code, fingerprint) where recovered_at is null',
          mysql: '(open_subject, code, fingerprint)',
        }),
        incidents_due: { all: '(due_at) where due_at is not null', mysql: '(due_at)' },
      },
    },
  ),

  /** When a channel got a message: each channel has a limit per hour. */
  tellings: table({ channel: name, at: instant }),

  /** Subjects without alerts for a while. */
  mutes: table(
    {
      /** A glob over subjects. */
      name,
      /** Null: for good. */
      until: instant.orNull,
      created_at: instant,
    },
    { key: ['name'] },
  ),

  /** A message on its way to somebody outside; its row goes once it has arrived. */
  deliveries: table(
    {
      id: id.neverReused,
      kind: word.oneOf(deliveryKinds),
      /** Name of the channel in the settings. */
      channel: name,
      /** JSON. Holds no secret: a channel takes those from the environment as it sends. */
      body: text,
      created_at: instant,
      /** When it is to be tried, or tried again; null: it was given up. */
      due_at: instant.orNull,
      attempts: count.default(0),
      /** Why the last try failed: one sentence. */
      reason: text.orNull,
    },
    { indexes: { deliveries_due: '(due_at)' } },
  ),

  /** When something that is done from time to time was last done; `hours`: all before that is counted. */
  chores: table({ name, done_at: instant }, { key: ['name'] }),

  /** Totals of a script's events since the log began; pruned rows stay counted. */
  counters: table(
    {
      script_id: integer,
      /** `added`: jobs of the queue; else the outcome of runs. */
      what: word.as<Outcome | 'added'>(),
      times: count,
      /** How many of them are known to have taken how long. */
      timed: count,
      run_ms: real,
      cpu_ms: real,
    },
    { key: ['script_id', 'what'] },
  ),

  /** A token, by which its holder may use the dashboard and its API from another machine. */
  tokens: table({
    id: id.neverReused,
    name: name.unique,
    /** SHA-256 of the token, hex: the token itself is nowhere. */
    hash: word.unique,
    permission: word.oneOf(tokenPermissions),
    created_at: instant,
    /** Null: never. */
    expires_at: instant.orNull,
    /** The day, UTC, on which it was last used; null: it never was. */
    last_used_at: instant.orNull,
  }),

  /** A machine that uses the log with others. */
  machines: table(
    {
      host: word,
      /** When it last called the runner. */
      seen_at: instant,
      /** The clock of the log's server minus its own. */
      clock_offset_ms: integer,
      runner_version: word,
    },
    { key: ['host'] },
  ),

  /** A script that a machine has. */
  copies: table(
    {
      host: word,
      name,
      tier: name,
      content_hash: word.orNull,
      /** The machines that it is for, a glob; null: all. */
      host_pattern: name.orNull,
    },
    { key: ['host', 'name'] },
  ),

  /** One row for each thing that only one transaction at a time may do: it is locked meanwhile. */
  mutexes: table({ name }, { key: ['name'], isOnServersAlone: true }),
};

/** Columns of a run that are written when it begins. */
export const beginningColumns = [
  ...['job_id', 'worker_id', 'script_id', 'version_id', 'claim_number', 'attempt', 'scheduled_for', 'started_at'],
] as const satisfies readonly (keyof RowOf<typeof tables.runs>)[];

/** Columns of a run that its end does not tell: all others are those of its end. */
export const notOfEnd = [
  ...['id', ...beginningColumns, 'left_job', 'timeout_ms', 'pid', 'pid_start_ticks', 'spool_id'],
] as const satisfies readonly (keyof RowOf<typeof tables.runs>)[];
