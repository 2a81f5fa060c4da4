import { nextPeriodStart, periodStart, tierPeriodMs } from '../discovery/tier-period.ts';

/** When a tier should be called next. */
export interface ExpectedCall {
  readonly atMs: number;
  /** It should have been called by now, with some time to spare. */
  readonly isOverdue: boolean;
}

const LONGEST_DELAY_MS = 3_600_000;

/**
 * The next call of a tier, judged by its last one: a crontab does not call at the first minute of a
 * period, but at the same minute of each. Null where nothing can be expected: no period, or never called.
 */
export function expectCall(
  tier: string,
  lastCallMs: number | null,
  nowMs: number,
): ExpectedCall | null {
  if (lastCallMs === null) return null;
  const [start, next] = [periodStart(tier, lastCallMs), nextPeriodStart(tier, lastCallMs)];
  if (start === null || next === null) return null;
  const atMs = next + lastCallMs - start;
  return { atMs, isOverdue: nowMs > atMs + longestDelayMs(tier) };
}

/** Hosts shift cron's minutes, but not by hours. */
function longestDelayMs(tier: string): number {
  return Math.min((tierPeriodMs(tier) ?? 0) / 2, LONGEST_DELAY_MS);
}
