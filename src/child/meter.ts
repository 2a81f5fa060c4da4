import type { HandlerEnd, ProbeResult } from './probe-contract.ts';
import { readRssBytes } from './read-rss.ts';

/** What one job uses of a process that serves many. */
export interface Meter {
  measure(end: HandlerEnd): { readonly result: ProbeResult; readonly rssBytes: number };
}

/** As the last job left it. */
let lastRssBytes: number | null = null;

export function startMeter(): Meter {
  const before = process.resourceUsage();
  lastRssBytes ??= readRssBytes();
  const rssBefore = lastRssBytes;
  return {
    measure: (end) => {
      const after = process.resourceUsage();
      const rssBytes = readRssBytes();
      lastRssBytes = rssBytes;
      const result = {
        ...end,
        userCpuMs: (after.userCPUTime - before.userCPUTime) / 1000,
        systemCpuMs: (after.systemCPUTime - before.systemCPUTime) / 1000,
        maxRssBytes: peakBytes(before.maxRSS * 1024, after.maxRSS * 1024, rssBefore, rssBytes),
        rssChangeBytes: rssBytes - rssBefore,
      };
      return { result, rssBytes };
    },
  };
}

/** The process's peak is this job's only if this job has raised it. */
function peakBytes(peakBefore: number, peakAfter: number, before: number, after: number): number {
  return peakAfter > peakBefore ? peakAfter : Math.max(before, after);
}
