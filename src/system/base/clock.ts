/** By how much the clock that all machines go by is ahead of this machine's own. */
let offsetMs = 0;

/** The time by which this process lives, in UTC epoch milliseconds: its machine's, or that of the fleet. */
export function now(): number {
  return Date.now() + offsetMs;
}

export function clockOffsetMs(): number {
  return offsetMs;
}

/** Clocks that differ by less agree: the way to the server takes time, too. */
const SAME_CLOCK_MS = 500;

/**
 * From now on the process lives by the clock of its database server, which all machines of a fleet share. To be told
 * again once this machine's own may have been set.
 */
export function followClock(aheadMs: number): void {
  if (Math.abs(aheadMs - offsetMs) < SAME_CLOCK_MS) return;
  offsetMs = Math.abs(aheadMs) < SAME_CLOCK_MS ? 0 : Math.round(aheadMs);
}
