import { WHOLE_QUEUE } from '../queue/pause-names.ts';
import type { MeasuredBy, Outcome, RunRow } from '../store/schema.ts';

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
export interface RunError {
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
