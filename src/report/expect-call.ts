import { nextPeriodStart, periodStart, tierPeriodMs } from '../discovery/tier-period.ts';

/** When a tier should be called next. */
export interface ExpectedCall {
  readonly atMs: number;
  /** It should have been called by now, with some time to spare. */
  readonly isOverdue: boolean;
}

const LONGEST_DELAY_MS = 3_600_000;

/** An hour between two calls, and half of one that the host shifts them. */
const LONGEST_DUE_DELAY_MS = 1.5 * LONGEST_DELAY_MS;

/** A tier's last call that was not by hand. */
export interface LastCall {
  readonly atMs: number;
  readonly isDue: boolean;
}

/**
 * The next call of a tier, judged by its last one: a crontab does not call at the first minute of a
 * period, but at the same minute of each. `runner due` runs a tier at its first call in a period, which on
 * some hosts is one an hour. Null where nothing can be expected: no period, or never called.
 */
export function expectCall(
  tier: string,
  last: LastCall | null,
  nowMs: number,
): ExpectedCall | null {
  if (last === null) return null;
  const [start, next] = [periodStart(tier, last.atMs), nextPeriodStart(tier, last.atMs)];
  if (start === null || next === null) return null;
  const atMs = last.isDue ? next : next + last.atMs - start;
  const delayMs = last.isDue ? LONGEST_DUE_DELAY_MS : longestDelayMs(tier);
  return { atMs, isOverdue: nowMs > atMs + delayMs };
}

/** Hosts shift cron's minutes, but not by hours. */
function longestDelayMs(tier: string): number {
  return Math.min((tierPeriodMs(tier) ?? 0) / 2, LONGEST_DELAY_MS);
}
