import type { RunEnd } from '../execution/run-end.ts';
import type { FinishedRun } from '../store/schema.ts';

/** A run's end as its row holds it. */
export function toFinishedRun(end: RunEnd): FinishedRun {
  return {
    outcome: end.outcome,
    finished_at: end.finishedAt,
    duration_ms: end.durationMs,
    user_cpu_ms: end.userCpuMs,
    system_cpu_ms: end.systemCpuMs,
    max_rss_bytes: end.maxRssBytes,
    rss_change_bytes: end.rssChangeBytes ?? null,
    measured_by: end.measuredBy,
    exit_code: end.exitCode,
    signal: end.signal,
    reason: end.reason,
    warning: end.warning,
    error_name: end.error?.name ?? null,
    error_message: end.error?.message ?? null,
    error_stack: end.error?.stack ?? null,
    output: end.output.text,
    output_bytes: end.output.bytes,
    output_dropped_bytes: end.output.droppedBytes,
    output_file: end.output.file,
    output_file_bytes: end.output.fileBytes,
  };
}
