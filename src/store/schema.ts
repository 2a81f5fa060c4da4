import type { Generated, Selectable } from 'kysely';
import type {
  ActivityEvent,
  ChildFailurePolicy,
  DeliveryKind,
  JobState,
  Measure,
  MeasuredBy,
  MissedPolicy,
  Outcome,
  PauseKind,
  Severity,
  SkipCode,
  StoredEvent,
  TokenPermission,
  Trigger,
  WorkerKind,
  WorkerState,
} from './words.ts';

/** A host as it was booted, with the versions that ran on it: what many workers share. */
export interface HostsTable {
  readonly id: Generated<number>;
  readonly host: string;
  readonly boot_id: string | null;
  readonly runner_version: string;
  readonly node_version: string;
}

/** One invocation that processes jobs. Instants are UTC epoch milliseconds in every table. */
export interface WorkersTable {
  readonly id: Generated<number>;
  readonly kind: WorkerKind;
  /** Null: it processes jobs of the queue. */
  readonly tier: string | null;
  readonly state: WorkerState;
  /** With `pid` and `pid_start_ticks`: who it is. A reused pid or a reboot changes one of them. */
  readonly host_id: number;
  readonly pid: number;
  readonly pid_start_ticks: number | null;
  readonly triggered_by: Generated<Trigger>;
  /** Beginning of the period that the pass stands for. */
  readonly scheduled_for: number | null;
  readonly started_at: number;
  /** Until when other machines believe that it lives; null: its process tells. */
  readonly lease_expires_at: number | null;
  readonly finished_at: number | null;
  readonly skip_code: SkipCode | null;
  /** Why it was skipped, stopped early, or is known to have crashed: one sentence. */
  readonly reason: string | null;
}

/** Name of a script or handler: `hourly/clean-tmp`, `queue/mail/welcome`. */
export interface ScriptsTable {
  readonly id: Generated<number>;
  readonly name: string;
}

/** A content that a script has had, and since when it runs. */
export interface ScriptVersionsTable {
  readonly id: Generated<number>;
  readonly script_id: number;
  /** SHA-256 of the script's file, hex; of a Node script with what it imports of the root. */
  readonly content_hash: string;
  readonly first_run_at: number;
}

/**
 * One piece of work. A script of a tier has one row for good, which its passes queue again and again;
 * anybody adds others to the queue, which have no tier.
 */
export interface JobsTable {
  readonly id: Generated<number>;
  /** A script's name, or of a job of the queue that of its handler without `queue/`. */
  readonly name: string;
  /** Null: it is one of the queue. */
  readonly tier: string | null;
  /** The machine that the row of a script for every machine belongs to; null: any machine. */
  readonly host: string | null;
  readonly state: Generated<JobState>;
  /**
   * For a waiting job of the queue: 1 once its time has come, 0 until then or until somebody has looked. Null: it does
   * not wait. It decides which of two small indexes contains the row.
   */
  readonly ready: Generated<number | null>;
  /** JSON, for the handler. */
  readonly data: Generated<string>;
  /** JSON from the handler; null: none. */
  readonly result: string | null;
  /** Higher ones are taken first. */
  readonly priority: Generated<number>;
  /** For a script, the start of its period; for a repeating job, the time for which it was to run, retries aside. */
  readonly scheduled_for: number | null;
  readonly run_at: Generated<number>;
  /** When its last try began. */
  readonly started_at: number | null;
  /** Tries that began since it was added, repeated or kicked. */
  readonly attempts: Generated<number>;
  /** `3`, `3 5m`, `3 exponential 30s 6h`, `- 5m`; null, or `-`: as its handler says. */
  readonly retry: string | null;
  /** The rule by which it is queued again once it has finished. */
  readonly repeat: string | null;
  readonly missed_policy: Generated<MissedPolicy>;
  /** No other job that has not ended has it. */
  readonly unique_key: string | null;
  /** Jobs with the same key share a limit of jobs at the same time. */
  readonly concurrency_key: string | null;
  readonly parent_id: number | null;
  /** 1: its parent was informed of its end, and has finished since. */
  readonly reported_to_parent: Generated<number>;
  /** Null: `resume`. */
  readonly on_child_failure: ChildFailurePolicy | null;
  /** Null: the settings decide. */
  readonly lease_ms: number | null;
  /** Until when its claim holds unless it is renewed; null: it is not claimed, or is a script's. */
  readonly lease_expires_at: number | null;
  /** 1: its worker was late once, and was given more time. */
  readonly lease_extended: Generated<number>;
  /**
   * Only the holder of this token may settle the job. It is `<worker>.<n>` for a worker of the runner, random for any
   * other holder. It also names the files of the run. Null: nobody holds the job.
   */
  readonly claim_token: string | null;
  readonly created_at: Generated<number>;
  /** Null: it has not ended. */
  readonly finished_at: number | null;
  /** One sentence about the reason for its state. */
  readonly reason: string | null;
}

/**
 * One attempt at a job, in a child process. The row is written when the run ends, or earlier once it
 * has lasted a moment. Unknown figures are null, never 0.
 */
export interface RunsTable {
  readonly id: Generated<number>;
  readonly job_id: number;
  /** Null: it was run by somebody who is no worker of the runner. */
  readonly worker_id: number | null;
  readonly script_id: number;
  /** Null: its content is unknown. */
  readonly version_id: number | null;
  /** The number in its claim's token after the worker's number: both together name its files. */
  readonly claim_number: number | null;
  /** 1 for the first try. */
  readonly attempt: number;
  readonly outcome: Outcome;
  /** State in which it left its job; null: `finished`, or it has not ended. */
  readonly left_job: JobState | null;
  /** When it was due: for a script by its crontab line or its own schedule, not the start of its period. */
  readonly scheduled_for: number | null;
  readonly started_at: number;
  readonly finished_at: number | null;
  /** For a run that lasts: the time limit at which it is ended. */
  readonly timeout_ms: number | null;
  readonly duration_ms: number | null;
  readonly user_cpu_ms: number | null;
  readonly system_cpu_ms: number | null;
  readonly max_rss_bytes: number | null;
  /** By how much the memory of a child that serves many jobs has grown with this one. */
  readonly rss_delta_bytes: number | null;
  readonly measured_by: MeasuredBy | null;
  readonly pid: number | null;
  readonly pid_start_ticks: number | null;
  readonly exit_code: number | null;
  readonly signal: string | null;
  /** How it ended, in one sentence; null when it succeeded. */
  readonly reason: string | null;
  /** A remark that did not end the run: memory above its soft limit. */
  readonly warning: string | null;
  /** 1: it succeeded, though its output tells of a failure. */
  readonly suspect: Generated<0 | 1>;
  readonly error_name: string | null;
  readonly error_message: string | null;
  readonly error_stack: string | null;
  /** Bytes the script wrote in all; `outputs` holds head and tail of them, up to 64 KB. */
  readonly output_bytes: number | null;
  /** Bytes that are kept nowhere. */
  readonly output_dropped_bytes: number | null;
  /** File name in `.runner/output/` of output too long for the log, gzip-compressed. */
  readonly output_file: string | null;
  readonly output_file_bytes: number | null;
  /** Identifies a run that was recorded without the log, so that it is replayed once. */
  readonly spool_id: string | null;
}

/** The output of a run, apart from its row, so that reports never read it. */
export interface OutputsTable {
  readonly run_id: number;
  readonly output: string;
}

/** A number that a script has reported of a run. */
export interface CountsTable {
  readonly run_id: number;
  readonly name: string;
  readonly value: number;
}

/** A successful run that is still to be compared with those before it. */
export interface UncomparedTable {
  readonly run_id: number;
}

/** In what a run was unlike those before it. Milliseconds, bytes, or whatever a script has counted. */
export interface DeviationsTable {
  readonly run_id: number;
  readonly measure: Measure;
  /** The name of a count; '' for other measures. */
  readonly name: string;
  readonly value: number;
  /** The median of earlier runs; for growing memory, its value weeks ago. */
  readonly usual: number;
  /** How many runs it was compared with. */
  readonly runs: number;
  /** Since when memory has been growing; null: the deviation is not a growth. */
  readonly since: number | null;
}

/** Pauses of tiers, scripts and jobs. */
export interface PausesTable {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  /** `fail-fast`: due jobs fail instead of waiting. */
  readonly kind: Generated<PauseKind>;
  /** Null: until it is resumed. */
  readonly until: number | null;
  readonly created_at: number;
}

export interface EventsTable {
  readonly id: Generated<number>;
  readonly at: number;
  readonly event: StoredEvent;
  readonly worker_id: number | null;
  readonly job_id: number | null;
  readonly run_id: number | null;
  /** Values of the event for people: a name, a reason. No code reads it. */
  readonly detail: string | null;
  /** The user of the API: `token laptop`, `user 1000`; null: a worker, or a person at a shell. */
  readonly actor: string | null;
}

/** View over workers, jobs, runs and events: every transition of a job, run or worker. */
export interface ActivityView {
  readonly at: number;
  readonly event: ActivityEvent;
  readonly worker_id: number | null;
  readonly job_id: number | null;
  readonly run_id: number | null;
  readonly detail: string | null;
  readonly actor: string | null;
  /** The warning at the end of a run. */
  readonly warning: string | null;
}

/** A problem of one subject, from its first sign until it is over. */
export interface IncidentsTable {
  readonly id: Generated<number>;
  /** A script or handler (`hourly/clean-tmp`, `queue/mail/welcome`), a tier, `queue`, `log`, `disk`, `alerts`. */
  readonly subject: string;
  /** `script-failing`, `script-warning`, or the code of the check that has found it. */
  readonly code: string;
  /** Distinguishes the errors of a script; '' for findings of checks. */
  readonly fingerprint: string;
  readonly severity: Severity;
  /** When it was first seen. */
  readonly opened_at: number;
  readonly last_at: number;
  /** Failures, or findings, so far. */
  readonly occurrences: Generated<number>;
  /** For a handler's failures: when a job of it first succeeded since the last one; null: never. */
  readonly succeeded_at: number | null;
  readonly first_run_id: number | null;
  readonly last_run_id: number | null;
  /** One sentence each: why the last run failed, or the finding of a check; and the cure. Both are the latest ones. */
  readonly message: string | null;
  readonly hint: string | null;
  /** When the channels first got an alert about it; null: not yet, or none is needed. */
  readonly told_at: number | null;
  readonly reminded_at: number | null;
  /** When a pass under cron last printed it, for cron's mail; null: not yet, or it has printed that it is over. */
  readonly printed_at: number | null;
  /** Null: it is not over. */
  readonly recovered_at: number | null;
  readonly recovery_told_at: number | null;
  /** Since then nobody gets reminders of it. */
  readonly acknowledged_at: number | null;
  /** When it may need an alert; null: not before something happens. */
  readonly due_at: number | null;
}

/** When a channel got a message: each channel has a limit per hour. */
export interface TellingsTable {
  readonly channel: string;
  readonly at: number;
}

/** Subjects without alerts for a while. */
export interface MutesTable {
  /** A glob over subjects. */
  readonly name: string;
  /** Null: for good. */
  readonly until: number | null;
  readonly created_at: number;
}

/** A token, by which its holder may use the dashboard and its API from another machine. */
export interface TokensTable {
  /** Never used twice. */
  readonly id: Generated<number>;
  readonly name: string;
  /** SHA-256 of the token, hex: the token itself is nowhere. */
  readonly hash: string;
  readonly permission: TokenPermission;
  readonly created_at: number;
  /** Null: never. */
  readonly expires_at: number | null;
  /** The day, UTC, on which it was last used; null: it never was. */
  readonly last_used_at: number | null;
}

/** A machine that uses the log with others. */
export interface MachinesTable {
  readonly host: string;
  /** When it last called the runner. */
  readonly seen_at: number;
  /** The clock of the log's server minus its own. */
  readonly clock_offset_ms: number;
  readonly runner_version: string;
}

/** A script that a machine has. */
export interface CopiesTable {
  readonly host: string;
  readonly name: string;
  readonly tier: string;
  readonly content_hash: string | null;
  /** The machines that it is for, a glob; null: all. */
  readonly host_pattern: string | null;
}

/** A message on its way to somebody outside; its row goes once it has arrived. */
export interface DeliveriesTable {
  readonly id: Generated<number>;
  readonly kind: DeliveryKind;
  /** Name of the channel in the settings. */
  readonly channel: string;
  /** JSON. Holds no secret: a channel takes those from the environment as it sends. */
  readonly body: string;
  readonly created_at: number;
  /** When it is to be tried, or tried again; null: it was given up. */
  readonly due_at: number | null;
  readonly attempts: Generated<number>;
  /** Why the last try failed: one sentence. */
  readonly reason: string | null;
}

/** Totals of a script's events since the log began; pruned rows stay counted. */
export interface CountersTable {
  readonly script_id: number;
  /** `added`: jobs of the queue; else the outcome of runs. */
  readonly what: Outcome | 'added';
  readonly times: number;
  /** How many of them are known to have taken how long. */
  readonly timed: number;
  readonly run_ms: number;
  readonly cpu_ms: number;
}

/** How far runs were sent to a collector: the newest one that was looked at, and those that had not ended by then. */
export interface ToldRunsTable {
  readonly run_id: number;
  readonly started_at: number;
  /** 1: it had not ended. */
  readonly is_open: number;
}

/**
 * The events of one script or handler in one hour. All values can be merged: counts and sums are added, minima and
 * maxima keep the extreme. A value that no run has reported is null.
 */
export interface MetricsTable {
  readonly script_id: number;
  /** When it begins, in UTC. */
  readonly hour: number;
  /** Jobs of the queue that were added. */
  readonly added: number;
  /** Runs that began, and those that ended. */
  readonly started: number;
  readonly ended: number;
  /** Runs that finished their job; that failed, and their job is tried again; that failed it, or jobs that failed without one. */
  readonly finished: number;
  readonly errors: number;
  readonly failed: number;
  readonly crashed: number;
  /** Runs that succeeded with a warning because their output reports a failure. */
  readonly warned: number;
  /** How long the runs that ended took. The histogram says how many of the durations are known. */
  readonly run_ms: number | null;
  readonly run_min_ms: number | null;
  readonly run_max_ms: number | null;
  readonly run_histogram: Uint8Array | null;
  /** For queued jobs that finished or failed: the time since they were added. */
  readonly service_ms: number | null;
  readonly service_min_ms: number | null;
  readonly service_max_ms: number | null;
  readonly service_histogram: Uint8Array | null;
  /** Runs whose CPU time is known, and that time. */
  readonly cpu_runs: number;
  readonly cpu_ms: number | null;
  readonly max_rss_bytes: number | null;
  /** First tries of which it is known when they should have begun, and how much later they did. */
  readonly late_runs: number;
  readonly late_ms: number | null;
  readonly late_max_ms: number | null;
  /** Jobs that were due and waited as the hour ended, and since when the longest did; null: nobody looked then. */
  readonly waiting: number | null;
  readonly waiting_ms: number | null;
}

/** The activity of workers of one kind in one hour. */
export interface WorkerMetricsTable {
  readonly kind: WorkerKind;
  /** `queue` for workers that process the queue. */
  readonly tier: string;
  readonly hour: number;
  /** Workers that were active during the hour, and calls that were skipped. */
  readonly workers: number;
  readonly skipped: number;
  readonly crashed: number;
  /** Within this hour, of all of them: how long they were there, and how long runs took. */
  readonly alive_ms: number;
  /** The shortest and the longest that one of them was there within this hour; null: nobody was. */
  readonly alive_min_ms: number | null;
  readonly alive_max_ms: number | null;
  readonly busy_ms: number;
  /** Runs that finished or failed their job: of all, and the most of one worker. */
  readonly jobs: number;
  readonly max_jobs: number;
  /** The most workers, or runs, at the same time. */
  readonly peak: number;
}

/**
 * Events that no hour has counted, and that will be missing in their table when it is counted: the row was deleted
 * before its hour was closed, or written after that.
 */
export interface UncountedTable {
  readonly id: Generated<number>;
  /** `failed`: without a run. */
  readonly what: 'added' | 'run' | 'failed';
  /** As in `scripts`. */
  readonly name: string;
  readonly worker_id: number | null;
  readonly outcome: Outcome | null;
  readonly left_job: JobState | null;
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly late_ms: number | null;
  readonly service_ms: number | null;
  readonly duration_ms: number | null;
  readonly cpu_ms: number | null;
  readonly max_rss_bytes: number | null;
  readonly warned: number;
  /** 1: its beginning is still to be counted; its end. */
  readonly counts_start: number;
  readonly counts_end: number;
}

/** When something that is done from time to time was last done; `hours`: all before that is counted. */
export interface ChoresTable {
  readonly name: string;
  readonly done_at: number;
}

export interface ActivityLog {
  readonly hosts: HostsTable;
  readonly workers: WorkersTable;
  readonly scripts: ScriptsTable;
  readonly script_versions: ScriptVersionsTable;
  readonly jobs: JobsTable;
  readonly runs: RunsTable;
  readonly outputs: OutputsTable;
  readonly counts: CountsTable;
  readonly uncompared: UncomparedTable;
  readonly deviations: DeviationsTable;
  readonly pauses: PausesTable;
  readonly events: EventsTable;
  readonly activity: ActivityView;
  readonly incidents: IncidentsTable;
  readonly tellings: TellingsTable;
  readonly mutes: MutesTable;
  readonly tokens: TokensTable;
  readonly machines: MachinesTable;
  readonly copies: CopiesTable;
  readonly deliveries: DeliveriesTable;
  readonly chores: ChoresTable;
  readonly told_runs: ToldRunsTable;
  readonly metrics: MetricsTable;
  readonly worker_metrics: WorkerMetricsTable;
  readonly uncounted: UncountedTable;
  readonly counters: CountersTable;
}

export type JobRow = Selectable<JobsTable>;
export type RunRow = Selectable<RunsTable>;
export type IncidentRow = Selectable<IncidentsTable>;

/** A worker with the host that it ran on. */
export type WorkerRow = Selectable<WorkersTable> & Omit<Selectable<HostsTable>, 'id'>;

/** The facts about a run once it has ended, as in its row and its output. */
export type FinishedRun = Omit<
  RunRow,
  | 'id'
  | 'job_id'
  | 'worker_id'
  | 'script_id'
  | 'version_id'
  | 'claim_number'
  | 'attempt'
  | 'left_job'
  | 'scheduled_for'
  | 'started_at'
  | 'pid'
  | 'pid_start_ticks'
  | 'timeout_ms'
  | 'spool_id'
> & {
  readonly output: string | null;
  /** The pid of its process; null or absent: only the pid in the row, if any, is known. */
  readonly pid?: number | null;
  /** The script's counts, by name. */
  readonly counts?: Readonly<Record<string, number>>;
};
