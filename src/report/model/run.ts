import { type Kysely, sql } from 'kysely';
import { checkLiveness, type Liveness } from '../../process/identity.ts';
import { WHOLE_QUEUE } from '../../queue/pauses.ts';
import type { ActivityLog, MeasuredBy, Outcome, RunRow, WorkerState } from '../../store/schema.ts';

/** One run as the readers of the log see it. Instants are epoch milliseconds, unknown is null. */
export interface RunRecord {
  readonly id: number;
  readonly script: string;
  readonly tier: string | null;
  /** The number of a job of the queue; null: it is a script's run. */
  readonly jobId: number | null;
  readonly outcome: Outcome;
  readonly attempt: number;
  readonly scheduledForMs: number | null;
  readonly startedAtMs: number;
  readonly finishedAtMs: number | null;
  readonly durationMs: number | null;
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
  readonly measuredBy: MeasuredBy | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** How it ended, in one sentence; null when it succeeded. */
  readonly reason: string | null;
  /** What was noted though it did not end the run; one line each. */
  readonly warning: string | null;
  readonly error: RunError | null;
  readonly contentHash: string | null;
  readonly pid: number | null;
  readonly outputBytes: number | null;
  readonly outputDroppedBytes: number | null;
}

/** What a Node script threw and nobody caught. */
interface RunError {
  readonly name: string | null;
  readonly message: string | null;
  readonly stack: string | null;
}

export interface RunWithOutput extends RunRecord {
  /** Head and tail, as the log's row holds them. */
  readonly output: string | null;
  /** The compressed file that holds all that was kept, where the row could not. */
  readonly outputFile: string | null;
}

/** Every column but the output, which can be 64 KB in each row. */
export const runColumns = [
  'id',
  'script',
  'tier',
  'job_id',
  'outcome',
  'attempt',
  'scheduled_for',
  'started_at',
  'finished_at',
  'duration_ms',
  'user_cpu_ms',
  'system_cpu_ms',
  'max_rss_bytes',
  'measured_by',
  'exit_code',
  'signal',
  'reason',
  'warning',
  'error_name',
  'error_message',
  'error_stack',
  'content_hash',
  'pid',
  'output_bytes',
  'output_dropped_bytes',
] as const satisfies readonly (keyof RunRow)[];

export function toRunRecord(row: Pick<RunRow, (typeof runColumns)[number]>): RunRecord {
  return {
    id: row.id,
    script: row.script,
    tier: row.tier,
    jobId: row.tier === WHOLE_QUEUE ? row.job_id : null,
    outcome: row.outcome,
    attempt: row.attempt,
    scheduledForMs: row.scheduled_for,
    startedAtMs: row.started_at,
    finishedAtMs: row.finished_at,
    durationMs: row.duration_ms,
    userCpuMs: row.user_cpu_ms,
    systemCpuMs: row.system_cpu_ms,
    maxRssBytes: row.max_rss_bytes,
    measuredBy: row.measured_by,
    exitCode: row.exit_code,
    signal: row.signal,
    reason: row.reason,
    warning: row.warning,
    error: toRunError(row),
    contentHash: row.content_hash,
    pid: row.pid,
    outputBytes: row.output_bytes,
    outputDroppedBytes: row.output_dropped_bytes,
  };
}

function toRunError(
  row: Pick<RunRow, 'error_name' | 'error_message' | 'error_stack'>,
): RunError | null {
  const error = { name: row.error_name, message: row.error_message, stack: row.error_stack };
  return Object.values(error).every((value) => value === null) ? null : error;
}

/** A run that has not ended yet, as far as the log knows. */
export interface RunningRun {
  readonly id: number;
  readonly script: string;
  readonly startedAtMs: number;
  readonly attempt: number;
  readonly pid: number | null;
  readonly host: string;
  /** The most that its processes were seen with so far. */
  readonly maxRssBytes: number | null;
  /** Its runner is gone; whether it runs on tells `liveness`. */
  readonly isOrphan: boolean;
  /**
   * `dead`: its runner and its process are both gone. Who opens the log records that first, so that
   * it is only met where the log cannot be written, or since.
   */
  readonly liveness: Liveness;
}

export async function selectRunning(db: Kysely<ActivityLog>): Promise<RunningRun[]> {
  const rows = await runningRuns(db).execute();
  // Sorted here: asked to sort, SQLite walks the index of all runs by time instead.
  const oldestFirst = rows.toSorted((one, other) => one.started_at - other.started_at);
  return oldestFirst.map((row) => ({
    id: row.id,
    script: row.script,
    startedAtMs: row.started_at,
    attempt: row.attempt,
    pid: row.pid,
    host: row.host,
    maxRssBytes: row.max_rss_bytes,
    isOrphan: livenessOfWorker(row) === 'dead',
    liveness: livenessOf(row),
  }));
}

/** Whether the run goes on, to the best of what can be seen from here. */
export async function isStillRunning(db: Kysely<ActivityLog>, id: number): Promise<boolean> {
  const row = await runningRuns(db).where('runs.id', '=', id).executeTakeFirst();
  return row !== undefined && livenessOf(row) !== 'dead';
}

function runningRuns(db: Kysely<ActivityLog>) {
  return (
    db
      .selectFrom('runs')
      .innerJoin('workers', 'workers.id', 'runs.worker_id')
      .select([
        'runs.id',
        'runs.script',
        'runs.started_at',
        'runs.attempt',
        'runs.max_rss_bytes',
        'runs.pid',
        'runs.pid_start_ticks',
        'workers.host',
        'workers.boot_id',
        'workers.state as worker_state',
        'workers.pid as worker_pid',
        'workers.pid_start_ticks as worker_start_ticks',
      ])
      // A literal: with a bound value SQLite cannot tell that the partial index holds all of them.
      .where('runs.outcome', '=', sql.lit('running' as const))
  );
}

interface RunningRow {
  readonly host: string;
  readonly boot_id: string | null;
  readonly worker_state: WorkerState;
  readonly worker_pid: number;
  readonly worker_start_ticks: number | null;
  readonly pid: number | null;
  readonly pid_start_ticks: number | null;
}

const NO_PID = 0;

/** A script can outlive its runner, and goes on writing its output when it does. */
function livenessOf(row: RunningRow): Liveness {
  const ofWorker = livenessOfWorker(row);
  if (ofWorker !== 'dead') return ofWorker;
  const { host, boot_id: bootId, pid, pid_start_ticks: startTicks } = row;
  const liveness = checkLiveness({ host, bootId, pid: pid ?? NO_PID, startTicks });
  if (pid !== null || liveness === 'on-another-host') return liveness;
  // Not written down in time. Who found its worker dead has looked for it, or it would have ended.
  return row.worker_state === 'running' ? 'dead' : 'alive';
}

function livenessOfWorker(row: RunningRow): Liveness {
  if (row.worker_state !== 'running') return 'dead';
  const { host, boot_id: bootId, worker_pid: pid, worker_start_ticks: startTicks } = row;
  return checkLiveness({ host, bootId, pid, startTicks });
}
