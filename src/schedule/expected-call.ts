import { nextPeriodStart, periodStart, tierPeriodMs } from './period.ts';

/** When a tier should be called next. */
export interface ExpectedCall {
  readonly atMs: number;
  /** The call should have come by now, even if it is a little late. */
  readonly isOverdue: boolean;
}

const LONGEST_DELAY_MS = 3_600_000;

/** One hour between two calls, plus half an hour by which the host shifts them. */
const LONGEST_DUE_DELAY_MS = 1.5 * LONGEST_DELAY_MS;

/** The last call of a tier that was not made by hand. */
export interface PreviousCall {
  readonly atMs: number;
  readonly isDue: boolean;
  /** The call before it came about one period earlier, as those of a scheduler do. */
  readonly isRegular?: boolean;
}

/**
 * The next call of a tier, judged by its last one: a crontab calls not at the first minute of a period, but at the same
 * minute of each. `runner due` runs a tier at its first call in a period; some hosts call it once an hour. Null if
 * nothing can be expected: the tier has no period, or was never called.
 */
export function expectCall(tier: string, last: PreviousCall | null, nowMs: number): ExpectedCall | null {
  if (last === null) return null;
  const start = periodStart(tier, last.atMs);
  if (start === null) return null;
  const minuteMs = last.isDue ? 0 : last.atMs - start;
  const atMs = startOfNext(tier, last.atMs, nowMs, minuteMs) + minuteMs;
  const delayMs = last.isDue ? LONGEST_DUE_DELAY_MS : longestDelayMs(tier);
  return { atMs, isOverdue: nowMs > atMs + delayMs };
}

/** A last call in the future comes from a clock that was ahead; only its minute within the period is of use. */
function startOfNext(tier: string, lastMs: number, nowMs: number, minuteMs: number): number {
  const current = periodStart(tier, nowMs) as number;
  const isStillToCome = lastMs > nowMs && current + minuteMs > nowMs;
  return isStillToCome ? current : (nextPeriodStart(tier, Math.min(lastMs, nowMs)) as number);
}

/** How late a call may be, in milliseconds: hosts shift cron's minutes, but not by hours. */
function longestDelayMs(tier: string): number {
  return Math.min((tierPeriodMs(tier) ?? 0) / 2, LONGEST_DELAY_MS);
}

/** Passes that the crontab should have started and did not. */
export interface MissedPasses {
  readonly count: number;
  /** Oldest first. */
  readonly gaps: readonly MissedGap[];
}

interface MissedGap {
  /** Start of the last pass before the gap. */
  readonly fromMs: number;
  /** Start of the first pass after the gap; null while there is none. */
  readonly toMs: number | null;
  readonly count: number;
}

export interface PassHistory {
  readonly periodMs: number | null;
  /**
   * When the tier was called, ascending: the calls inside the window, including those that found the lock held, and the
   * last call before the window.
   */
  readonly calledAtMs: readonly number[];
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** How late a pass may be before it counts as missed, in periods. Hosts shift cron's minutes. */
const TOLERANCE = 0.5;

/**
 * The expected passes that did not happen. Each is expected one period after the pass before it. Null if nothing can be
 * expected: the tier has no period, or was never called.
 */
export function findMissedPasses(history: PassHistory): MissedPasses | null {
  const { periodMs, calledAtMs, untilMs } = history;
  if (periodMs === null || calledAtMs.length === 0) return null;
  const gaps = calledAtMs.map((fromMs, index): MissedGap => {
    const toMs = calledAtMs[index + 1] ?? null;
    const last = (toMs ?? untilMs) - TOLERANCE * periodMs;
    return { fromMs, toMs, count: countExpected(fromMs, last, periodMs, history.sinceMs) };
  });
  const missed = gaps.filter((gap) => gap.count > 0);
  return { count: missed.reduce((sum, gap) => sum + gap.count, 0), gaps: missed };
}

/** How many whole periods after `fromMs` end before `endMs`, but not before the window. */
function countExpected(fromMs: number, endMs: number, periodMs: number, sinceMs: number): number {
  const upToEnd = Math.ceil((endMs - fromMs) / periodMs) - 1;
  const beforeWindow = Math.max(0, Math.ceil((sinceMs - fromMs) / periodMs) - 1);
  return Math.max(0, upToEnd - beforeWindow);
}

/**
 * The first expected call of a tier at or after a time; null: none is expected. `runner due` is called often: it runs a
 * script as soon as its time has come.
 */
export function expectCallAfter(
  tier: string,
  next: ExpectedCall | null,
  isDue: boolean,
  timeMs: number,
): number | null {
  if (next === null) return null;
  if (isDue) return timeMs;
  if (timeMs <= next.atMs) return next.atMs;
  const minuteMs = next.atMs - (periodStart(tier, next.atMs) as number);
  const atMs = (periodStart(tier, timeMs) as number) + minuteMs;
  return atMs >= timeMs ? atMs : (nextPeriodStart(tier, timeMs) as number) + minuteMs;
}
