import { readUsage, type TreeUsage } from '../process/process-tree.ts';
import { type Measurement, unmeasured } from './run-end.ts';

export interface ProcessSampler {
  /** Ends the sampling; what was seen, with nulls where nothing was. */
  stop(): Measurement;
}

/** Whom to look at, and how often. */
export interface Sampling {
  readonly listMembers: () => readonly number[];
  /** The first samples come this close together, the others ever less close. */
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
  readonly onSample: (sample: Sample) => void;
}

export interface Sample {
  readonly usage: TreeUsage;
  readonly pids: readonly number[];
  /** The most memory of this and all earlier samples. */
  readonly peakRssBytes: number;
}

/** A script of a few milliseconds must be caught; one of an hour must not be watched that closely. */
const CLOSE_DELAY_MS = 100;
const CLOSE_UNTIL_MS = 10_000;
/** What a sample takes of the time until the next one where there are many processes: 2 %. */
const COST_FACTOR = 50;

/** Samples a run's processes from `/proc`. */
export function sampleProcess(sampling: Sampling): ProcessSampler {
  const startedAt = performance.now();
  let seen: TreeUsage | null = null;
  let peakRssBytes = 0;
  const sample = (): void => {
    const pids = sampling.listMembers();
    const usage = readUsage(pids);
    if (usage === null) return;
    seen = mostCpu(seen, usage);
    peakRssBytes = Math.max(peakRssBytes, usage.rssBytes, usage.peakRssBytes);
    sampling.onSample({ usage, pids, peakRssBytes });
  };
  const next = (): void => {
    const before = performance.now();
    sample();
    delayMs = nextDelayMs(sampling, delayMs, before - startedAt, performance.now() - before);
    timer = setTimeout(next, delayMs);
  };
  let delayMs = sampling.firstDelayMs;
  if (delayMs < CLOSE_DELAY_MS / 10) sample();
  let timer = setTimeout(next, delayMs);
  return {
    stop: () => {
      clearTimeout(timer);
      return toMeasurement(seen, peakRssBytes);
    },
  };
}

function nextDelayMs(
  { longestDelayMs }: Sampling,
  delayMs: number,
  elapsedMs: number,
  costMs: number,
): number {
  if (elapsedMs > CLOSE_UNTIL_MS) return longestDelayMs;
  if (delayMs < CLOSE_DELAY_MS) return Math.min(delayMs * 2, CLOSE_DELAY_MS);
  return Math.min(Math.max(CLOSE_DELAY_MS, costMs * COST_FACTOR), longestDelayMs);
}

/** A descendant that ended without being waited for takes its CPU time out of the sum. */
function mostCpu(before: TreeUsage | null, now: TreeUsage): TreeUsage {
  if (before === null) return now;
  return {
    ...now,
    userCpuMs: Math.max(before.userCpuMs, now.userCpuMs),
    systemCpuMs: Math.max(before.systemCpuMs, now.systemCpuMs),
  };
}

function toMeasurement(seen: TreeUsage | null, peakRssBytes: number): Measurement {
  if (seen === null) return unmeasured;
  const { userCpuMs, systemCpuMs } = seen;
  return { userCpuMs, systemCpuMs, maxRssBytes: peakRssBytes, measuredBy: 'sampled' };
}
