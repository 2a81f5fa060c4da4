import { readTreeUsage, type TreeUsage } from '../process/process-tree.ts';
import type { Measurement } from './run-end.ts';

export interface ProcessSampler {
  /** Ends the sampling; what was seen, with nulls where nothing was. */
  stop(): Measurement;
}

/** A script of a few milliseconds must be caught; one of an hour must not be watched that closely. */
const FIRST_DELAY_MS = 1;
const CLOSE_DELAY_MS = 100;
const CLOSE_UNTIL_MS = 10_000;
const WIDE_DELAY_MS = 1_000;

/**
 * Samples a process and its descendants from `/proc`.
 *
 * @param firstDelayMs the first samples come this close together; a Node script measures itself, so
 *   it needs none early on
 */
export function sampleProcess(pid: number, firstDelayMs = FIRST_DELAY_MS): ProcessSampler {
  const startedAt = performance.now();
  let seen: TreeUsage | null = null;
  let peakRssBytes: number | null = null;
  let delayMs = firstDelayMs;
  const sample = (): void => {
    const usage = readTreeUsage(pid);
    if (usage === null) return;
    seen = mostCpu(seen, usage);
    peakRssBytes = Math.max(peakRssBytes ?? 0, usage.rssBytes, usage.peakRssBytes);
  };
  const next = (): void => {
    sample();
    delayMs = nextDelayMs(delayMs, performance.now() - startedAt);
    timer = setTimeout(next, delayMs);
  };
  if (firstDelayMs === FIRST_DELAY_MS) sample();
  let timer = setTimeout(next, delayMs);
  return {
    stop: () => {
      clearTimeout(timer);
      return toMeasurement(seen, peakRssBytes);
    },
  };
}

function nextDelayMs(delayMs: number, elapsedMs: number): number {
  if (elapsedMs > CLOSE_UNTIL_MS) return WIDE_DELAY_MS;
  return Math.min(delayMs * 2, CLOSE_DELAY_MS);
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

function toMeasurement(seen: TreeUsage | null, peakRssBytes: number | null): Measurement {
  return {
    userCpuMs: seen?.userCpuMs ?? null,
    systemCpuMs: seen?.systemCpuMs ?? null,
    maxRssBytes: peakRssBytes,
    measuredBy: seen === null ? null : 'sampled',
  };
}
