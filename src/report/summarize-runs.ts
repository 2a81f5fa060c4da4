import { isFailure } from '../store/outcomes.ts';
import type { Outcome } from '../store/schema.ts';

/** What a summary needs of one run; the index `runs_summary` holds just this. */
export interface RunFigures {
  readonly outcome: Outcome;
  readonly durationMs: number | null;
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
}

/** How many runs there were and how they ended. Unknown is null: no figure of any run was known. */
export interface Totals {
  /** All that started, the running ones included. */
  readonly runs: number;
  readonly succeeded: number;
  /** All that ended in any other way, but for the released ones. */
  readonly failed: number;
  /** Those whose job was given back: they say nothing of success or failure. */
  readonly released: number;
  /** Of those that succeeded or failed, the share that succeeded: 0 to 1. */
  readonly successRate: number | null;
  readonly totalDurationMs: number | null;
  readonly totalCpuMs: number | null;
  /** The largest peak. */
  readonly maxRssBytes: number | null;
}

/** What one script's runs amount to. */
export interface Summary extends Totals {
  readonly p50DurationMs: number | null;
  readonly p95DurationMs: number | null;
  readonly maxDurationMs: number | null;
  /** What a usual run takes: the median of user and system time together. */
  readonly cpuMs: number | null;
}

export function summarizeRuns(runs: readonly RunFigures[]): Summary {
  const succeeded = countOutcomes(runs, (outcome) => outcome === 'succeeded');
  const failed = countOutcomes(runs, isFailure);
  const durations = sorted(runs.map((run) => run.durationMs));
  const cpu = sorted(runs.map(cpuOf));
  return {
    runs: runs.length,
    succeeded,
    failed,
    released: countOutcomes(runs, (outcome) => outcome === 'released'),
    successRate: rate(succeeded, failed),
    p50DurationMs: nearestRank(durations, 0.5),
    p95DurationMs: nearestRank(durations, 0.95),
    maxDurationMs: nearestRank(durations, 1),
    cpuMs: nearestRank(cpu, 0.5),
    maxRssBytes: nearestRank(sorted(runs.map((run) => run.maxRssBytes)), 1),
    totalDurationMs: sumOf(durations),
    totalCpuMs: sumOf(cpu),
  };
}

/** What all scripts' runs amount to. */
export function addUp(summaries: readonly Summary[]): Totals {
  const sum = (figure: keyof Totals): number | null => sumOf(known(summaries, figure));
  const succeeded = sum('succeeded') ?? 0;
  const failed = sum('failed') ?? 0;
  return {
    runs: sum('runs') ?? 0,
    succeeded,
    failed,
    released: sum('released') ?? 0,
    successRate: rate(succeeded, failed),
    totalDurationMs: sum('totalDurationMs'),
    totalCpuMs: sum('totalCpuMs'),
    maxRssBytes: nearestRank(known(summaries, 'maxRssBytes').sort(), 1),
  };
}

/**
 * The smallest value that at least this share of all values do not exceed. Always one that was
 * really measured; null without values.
 */
export function nearestRank(ascending: Float64Array, share: number): number | null {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)] ?? null;
}

function countOutcomes(
  runs: readonly RunFigures[],
  isCounted: (outcome: Outcome) => boolean,
): number {
  return runs.reduce((count, { outcome }) => count + Number(isCounted(outcome)), 0);
}

function rate(succeeded: number, failed: number): number | null {
  return succeeded + failed === 0 ? null : succeeded / (succeeded + failed);
}

function cpuOf(run: RunFigures): number | null {
  if (run.userCpuMs === null || run.systemCpuMs === null) return null;
  return roundToMicroseconds(run.userCpuMs + run.systemCpuMs);
}

function known(summaries: readonly Summary[], figure: keyof Totals): Float64Array {
  return Float64Array.from(summaries.flatMap((summary) => summary[figure] ?? []));
}

/** A typed array sorts by number, and several times faster. */
function sorted(values: readonly (number | null)[]): Float64Array {
  return Float64Array.from(values.filter((value) => value !== null)).sort();
}

function sumOf(values: Float64Array): number | null {
  if (values.length === 0) return null;
  return roundToMicroseconds(values.reduce((sum, value) => sum + value, 0));
}

/** 0.1 + 0.2 must not be shown as 0.30000000000000004. */
function roundToMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
