import { setTimeout } from 'node:timers/promises';

/** The clock that all users of a log share. */
export interface LogClock {
  /** UTC epoch milliseconds: by this machine's clock, or by the clock of the log's server. */
  now(): number;
  /** By how many milliseconds it is ahead of this machine's own clock. */
  offsetMs(): number;
  /**
   * Switches to the clock of a database server, which all machines of a fleet share. Call it again when this machine's
   * own clock may have been set.
   */
  follow(aheadMs: number): void;
}

/** Clocks that differ by less, in milliseconds, count as equal: the way to the server takes time, too. */
const SAME_CLOCK_MS = 500;

export function createLogClock(): LogClock {
  let offsetMs = 0;
  return {
    now: () => Date.now() + offsetMs,
    offsetMs: () => offsetMs,
    follow: (aheadMs) => {
      if (Math.abs(aheadMs - offsetMs) < SAME_CLOCK_MS) return;
      offsetMs = Math.abs(aheadMs) < SAME_CLOCK_MS ? 0 : Math.round(aheadMs);
    },
  };
}

/** The clock of a command, which works for one log only. A program that opens several logs has one clock for each. */
export const commandClock = createLogClock();

/** The time by the clock of this command, in UTC epoch milliseconds. */
export const { now, offsetMs: clockOffsetMs } = commandClock;

/** Returns whether more than this many milliseconds have passed since the call. */
export function lateAfter(ms: number): () => boolean {
  const begin = performance.now();
  return () => performance.now() - begin > ms;
}

/** Waits this long, or until `stop`: a wait that is stopped is over, and has not failed. */
export async function sleepUntil(stop: AbortSignal, ms: number): Promise<void> {
  try {
    await setTimeout(ms, undefined, { signal: stop });
  } catch (error) {
    if (!stop.aborted) throw error;
  }
}
