import type { FinishedRun } from '../../../src/store/schema.ts';

/** The end of a run that succeeded, unless said otherwise. */
export function makeFinishedRun(fields: Partial<FinishedRun> = {}): FinishedRun {
  return {
    outcome: 'succeeded',
    finished_at: 2_000,
    duration_us: 12_500,
    user_cpu_us: 5000,
    system_cpu_us: 1000,
    max_rss_bytes: 40_000_000,
    rss_delta_bytes: null,
    measured_by: 'self',
    exit_code: 0,
    signal: null,
    reason: null,
    warning: null,
    suspect: 0,
    error_name: null,
    error_message: null,
    error_stack: null,
    output_bytes: 3,
    output_dropped_bytes: 0,
    output_file: null,
    output_file_bytes: null,
    output: 'hi\n',
    ...fields,
  };
}
