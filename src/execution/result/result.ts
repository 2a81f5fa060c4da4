import type { HandlerDecision, ProbeError, ProbeResult } from '../../child/contract.ts';
import type { Counts } from '../../child/counts.ts';
import type { FinishedRun } from '../../store/schema.ts';
import type { MeasuredBy, Outcome } from '../../store/words.ts';
import { now } from '../../system/base/clock.ts';
import { toMicros } from '../../system/base/values.ts';
import type { Exit } from '../start/process.ts';
import type { StartFailure } from '../start/start-failure.ts';

/** CPU time and peak memory of a run, and how they were measured. Unknown values are null. */
export interface Measurement {
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
  readonly measuredBy: MeasuredBy | null;
}

export const unmeasured: Measurement = { userCpuMs: null, systemCpuMs: null, maxRssBytes: null, measuredBy: null };

export function measureBySelf({ userCpuMs, systemCpuMs, maxRssBytes }: ProbeResult): Measurement {
  return { userCpuMs, systemCpuMs, maxRssBytes, measuredBy: 'self' };
}

/**
 * The last sample is older than the end, and the kernel's count lacks children that nobody waited for: take the larger.
 */
export function addCpu(sampled: Measurement, cpu: Exit['cpu']): Measurement {
  if (cpu === null) return sampled;
  return {
    userCpuMs: Math.max(cpu.userCpuMs, sampled.userCpuMs ?? 0),
    systemCpuMs: Math.max(cpu.systemCpuMs, sampled.systemCpuMs ?? 0),
    maxRssBytes: sampled.maxRssBytes,
    measuredBy: 'sampled',
  };
}

/** The part of a run's output that is kept. */
export interface KeptOutput {
  /** The whole output, or its head and tail with a line between them that says how much is left out. */
  readonly text: string;
  /** Bytes written in all; null if the runner that counted them died. */
  readonly bytes: number | null;
  /** Bytes that are kept nowhere; null if the runner that counted them died. */
  readonly droppedBytes: number | null;
  /** The file's name in the output folder, if more is kept than the text. */
  readonly file: string | null;
  /** Size of the compressed file. */
  readonly fileBytes: number | null;
}

/** How one run ended. Success and failure are the same record. */
export interface RunEnd extends Measurement {
  readonly outcome: Exclude<Outcome, 'running'>;
  readonly finishedAt: number;
  /** Null if nobody saw it end. */
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** One sentence; null if it succeeded. */
  readonly reason: string | null;
  /** A remark that did not end the run; null: none. */
  readonly warning: string | null;
  /** Whether its output suggests a failure although it succeeded. */
  readonly suspect: boolean;
  /** The error inside a Node script, as the script reported it. */
  readonly error: ProbeError | null;
  readonly output: KeptOutput;
  /** The pid of its process; absent: there was none, or it is unknown. */
  readonly pid?: number;
  /** By how much a child that serves many jobs has grown with this one. */
  readonly rssDeltaBytes?: number;
  /** The sums that it has counted, by name. */
  readonly counts?: Counts;
  /** The result of a handler, as JSON. */
  readonly result?: string;
  /** The request of a handler, present even if something else ended the run. */
  readonly ask?: HandlerDecision;
  /** It never began, as the package or Node was replaced: no further run can begin either. */
  readonly isReplaced?: true;
}

/** The part of a run's end that a call remembers: outputs and results would fill its memory. */
export type KeptEnd = Pick<RunEnd, 'outcome'>;

/** Output that nobody can read any more. */
export const unreadOutput: KeptOutput = { text: '', bytes: null, droppedBytes: null, file: null, fileBytes: null };

export const noOutput: KeptOutput = { text: '', bytes: 0, droppedBytes: 0, file: null, fileBytes: null };

/** The end of a run of which nothing was measured. */
export function endUnmeasured(
  end: Pick<RunEnd, 'outcome' | 'finishedAt' | 'durationMs' | 'reason' | 'output'>,
): RunEnd {
  return { ...unmeasured, exitCode: null, signal: null, warning: null, suspect: false, error: null, ...end };
}

/** The end of a run that never began: it was refused or had no interpreter; released if the runner was replaced. */
export function endNotStarted({ failure: reason, isReplaced }: StartFailure, durationMs: number): RunEnd {
  const end = endUnmeasured({
    outcome: isReplaced ? 'released' : 'not-started',
    finishedAt: now(),
    durationMs: roundMs(durationMs),
    reason,
    output: noOutput,
  });
  return isReplaced ? { ...end, isReplaced } : end;
}

export function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/** Converts a run's end to the columns of its row. */
export function toFinishedRun(end: RunEnd): FinishedRun {
  return {
    outcome: end.outcome,
    finished_at: end.finishedAt,
    duration_us: toMicros(end.durationMs),
    user_cpu_us: toMicros(end.userCpuMs),
    system_cpu_us: toMicros(end.systemCpuMs),
    max_rss_bytes: end.maxRssBytes,
    rss_delta_bytes: end.rssDeltaBytes ?? null,
    measured_by: end.measuredBy,
    exit_code: end.exitCode,
    signal: end.signal,
    reason: end.reason,
    warning: end.warning,
    suspect: end.suspect ? 1 : 0,
    error_name: end.error?.name ?? null,
    error_message: end.error?.message ?? null,
    error_stack: end.error?.stack ?? null,
    output: end.output.text,
    ...(end.pid !== undefined && { pid: end.pid }),
    ...(end.counts && { counts: end.counts }),
    output_bytes: end.output.bytes,
    output_dropped_bytes: end.output.droppedBytes,
    output_file: end.output.file,
    output_file_bytes: end.output.fileBytes,
  };
}
