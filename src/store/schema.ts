import type { Generated, Selectable } from 'kysely';
import type { CrashPolicy } from '../settings/readers.ts';

/** What a worker is doing, or how it ended. */
export type WorkerState = 'running' | 'finished' | 'skipped' | 'crashed';

/**
 * `tier`: a pass over a whole folder. `script`: one script, started by hand. `leftover`: what was due
 * of a tier besides its passes: retries, and what an earlier pass deferred or died before. `queue`:
 * jobs of the queue.
 */
export type WorkerKind = 'tier' | 'script' | 'leftover' | 'queue';

/**
 * `schedule`: its own line of the crontab, or whatever else has no terminal. `due`: the one line for all
 * tiers, which calls none of them at a time of its own. `hand`: at a terminal.
 */
export type CalledBy = 'schedule' | 'due' | 'hand';

/** How one attempt ended; `running` until it has, `released` when its job was given back. */
export type Outcome =
  | 'running'
  | 'succeeded'
  | 'failed'
  | 'timed-out'
  | 'killed'
  | 'crashed'
  | 'not-started'
  | 'released';

/** `self`: the script's own `process.resourceUsage()`. `sampled`: the process tree in `/proc`. */
export type MeasuredBy = 'self' | 'sampled';

/** One invocation that works jobs off. Instants are UTC epoch milliseconds in every table. */
interface WorkersTable {
  readonly id: Generated<number>;
  readonly kind: WorkerKind;
  readonly tier: string | null;
  readonly state: WorkerState;
  /** Who it is: a reused pid or a reboot changes at least one of these four. */
  readonly host: string;
  readonly boot_id: string | null;
  readonly pid: number;
  readonly pid_start_ticks: number | null;
  readonly scheduled_for: number | null;
  readonly started_at: number;
  readonly finished_at: number | null;
  /** Why it was skipped, or how it is known to have crashed: one sentence. */
  readonly reason: string | null;
  readonly called_by: Generated<CalledBy>;
  readonly runner_version: string;
  readonly node_version: string;
}

/**
 * One piece of work to be done. A pass adds one for each script of its tier; anybody adds others to
 * the queue, which have no tier.
 */
interface JobsTable {
  readonly id: Generated<number>;
  /** A script's name, or of a job of the queue that of its handler without `queue/`. */
  readonly name: string;
  /** Null: it is one of the queue. */
  readonly tier: string | null;
  readonly state: Generated<JobState>;
  /** JSON, for the handler. */
  readonly data: Generated<string>;
  /** JSON, of the handler; null: it gave none. */
  readonly result: string | null;
  /** Higher ones are taken first. */
  readonly priority: Generated<number>;
  /** Of a script, the start of its period; of a repeating job, when it was to run, retries aside. */
  readonly scheduled_for: number | null;
  readonly run_at: Generated<number>;
  /** When it was claimed last. */
  readonly started_at: number | null;
  /** Tries since it was added, repeated or kicked. */
  readonly attempts: Generated<number>;
  /** Null: as its handler says, once it is claimed. */
  readonly max_attempts: number | null;
  /** 1: it was its handler that said so, and may say otherwise at the next claim. */
  readonly retries_by_handler: Generated<number>;
  /** Before the second try; with each further one times `retry_factor`, up to `retry_longest_ms`. */
  readonly retry_delay_ms: number | null;
  readonly delay_by_handler: Generated<number>;
  readonly retry_factor: Generated<number>;
  readonly retry_longest_ms: Generated<number>;
  /** What follows a crash; null: what follows any failure. */
  readonly on_crash: CrashPolicy | null;
  /** The rule by which it is queued again once it has finished. */
  readonly repeat: string | null;
  readonly missed: Generated<MissedPolicy>;
  /** No other job that has not ended has it. */
  readonly unique_key: string | null;
  /** What shares a limit of jobs at the same time. */
  readonly group_key: string | null;
  readonly parent_id: number | null;
  /** 1: its parent was told how it ended, and has finished since. */
  readonly is_told: Generated<number>;
  readonly on_child_failure: Generated<ChildFailurePolicy>;
  /** Null: as the settings say. */
  readonly lease_ms: number | null;
  /** Until when its claim holds unless it is renewed; null: it is not claimed, or is no job of the queue. */
  readonly leased_until: number | null;
  readonly claimed_by: number | null;
  /** Fencing: only who holds this token may end the job. */
  readonly claim_token: string | null;
  /** How often it was claimed in all. */
  readonly reserves: Generated<number>;
  readonly timeouts: Generated<number>;
  readonly releases: Generated<number>;
  readonly buries: Generated<number>;
  readonly kicks: Generated<number>;
  readonly crashes: Generated<number>;
  readonly created_at: Generated<number>;
  readonly finished_at: number | null;
  readonly reason: string | null;
}

/** One attempt at a job, in a child process. Unknown figures are null, never 0. */
export interface RunsTable {
  readonly id: Generated<number>;
  readonly job_id: number;
  /** Null: whoever asked for the job, and is no worker of the runner. */
  readonly worker_id: number | null;
  readonly script: string;
  readonly tier: string | null;
  readonly attempt: number;
  readonly outcome: Outcome;
  readonly scheduled_for: number | null;
  readonly started_at: number;
  readonly finished_at: number | null;
  /** When it is ended by whoever has the say. */
  readonly timeout_ms: number | null;
  readonly duration_ms: number | null;
  readonly user_cpu_ms: number | null;
  readonly system_cpu_ms: number | null;
  readonly max_rss_bytes: number | null;
  /** By how much the memory of a child that serves many jobs has grown with this one. */
  readonly rss_change_bytes: number | null;
  readonly measured_by: MeasuredBy | null;
  readonly pid: number | null;
  readonly pid_start_ticks: number | null;
  readonly exit_code: number | null;
  readonly signal: string | null;
  /** How it ended, in one sentence; null when it succeeded. */
  readonly reason: string | null;
  /** What was noted though it did not end the run: memory above its soft limit. */
  readonly warning: string | null;
  readonly error_name: string | null;
  readonly error_message: string | null;
  readonly error_stack: string | null;
  /** SHA-256 of the script's file, hex. */
  readonly content_hash: string | null;
  /** Bytes the script wrote in all; `output` holds head and tail of them, up to 64 KB. */
  readonly output_bytes: number | null;
  /** Bytes that are kept nowhere. */
  readonly output_dropped_bytes: number | null;
  /** File name in `.runner/output/` of output too long for this row, gzip-compressed. */
  readonly output_file: string | null;
  readonly output_file_bytes: number | null;
  readonly output: string | null;
  /** What tells a run that was recorded without the log from every other; it is taken in once. */
  readonly spool_id: string | null;
}

export type PauseKind = 'pause' | 'fuse';

/** What is not to be run for a while. */
interface PausesTable {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  /** `fuse`: what is due of it fails instead of waiting. */
  readonly kind: Generated<PauseKind>;
  /** Null: until it is resumed. */
  readonly until: number | null;
  readonly created_at: number;
}

/** One transition of a job, run or worker; rows are only ever added. */
export interface ActivityTable {
  readonly id: Generated<number>;
  readonly at: number;
  readonly worker_id: number | null;
  readonly job_id: number | null;
  readonly run_id: number | null;
  /** What happened: `worker-started`, `lock-taken-over`, `job-queued`, `job-finished` … */
  readonly event: ActivityEvent;
  readonly detail: string | null;
}

export type ActivityEvent =
  | 'worker-started'
  | 'worker-skipped'
  | 'worker-finished'
  | 'worker-crashed'
  | 'lock-taken-over'
  | 'lock-compromised'
  | 'job-queued'
  | 'job-running'
  | 'job-finished'
  | 'job-failed'
  | 'job-retrying'
  | 'job-deferred'
  | 'job-left-running'
  | 'job-cancelled'
  | 'job-paused'
  | 'job-released'
  | 'job-buried'
  | 'job-kicked'
  | 'job-updated'
  | 'job-requeued'
  | 'job-deleted'
  | 'job-lease-expired'
  | 'job-imported'
  | 'paused'
  | 'resumed'
  | 'log-set-aside'
  | 'spool-taken-in'
  | 'log-pruned';

export interface ActivityLog {
  readonly workers: WorkersTable;
  readonly jobs: JobsTable;
  readonly runs: RunsTable;
  readonly activity: ActivityTable;
  readonly pauses: PausesTable;
}

export type WorkerRow = Selectable<WorkersTable>;
export type JobRow = Selectable<JobsTable>;
export type RunRow = Selectable<RunsTable>;

/** What is known of a run once it has ended. */
export type FinishedRun = Omit<
  RunRow,
  | 'id'
  | 'job_id'
  | 'worker_id'
  | 'script'
  | 'tier'
  | 'attempt'
  | 'scheduled_for'
  | 'started_at'
  | 'pid'
  | 'pid_start_ticks'
  | 'timeout_ms'
  | 'content_hash'
  | 'spool_id'
  | 'rss_change_bytes'
> & { readonly rss_change_bytes?: number | null };

/** Where a job is in its life; the diagram is in docs/architecture.md. */
export type JobState =
  | 'queued'
  | 'running'
  | 'finished'
  | 'retrying'
  | 'failed'
  | 'paused'
  | 'cancelled';

/** What becomes of a repeating job's times that have passed meanwhile. */
export type MissedPolicy = 'all' | 'once' | 'skip';

/** What becomes of a parent one of whose children has failed. */
export type ChildFailurePolicy = 'resume' | 'fail';

/** What was given back, to be taken again, is neither a success nor a failure. */
const areFailures: Readonly<Record<Outcome, boolean>> = {
  succeeded: false,
  failed: true,
  'timed-out': true,
  killed: true,
  crashed: true,
  'not-started': true,
  released: false,
  running: false,
};

/** All there are. */
export const outcomes = Object.keys(areFailures) as readonly Outcome[];

/** Whether somebody should know that a run ended like this. */
export function isFailure(outcome: Outcome): boolean {
  return areFailures[outcome];
}

/** How many migrations there are; stored as the file's `user_version`. */
export const SCHEMA_VERSION = 1;
