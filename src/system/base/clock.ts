/** The time that all who use a log live by. */
export interface LogClock {
  /** UTC epoch milliseconds: by this machine's clock, or by that of the log's server. */
  now(): number;
  /** By how much it is ahead of this machine's own clock, in milliseconds. */
  offsetMs(): number;
  /**
   * From now on it is the clock of a database server, which all machines of a fleet share. To be told again once this
   * machine's own may have been set.
   */
  follow(aheadMs: number): void;
}

/** Clocks that differ by less agree: the way to the server takes time, too. */
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

/** That of a command, which works for one log alone. A program that opens several has one for each. */
export const commandClock = createLogClock();

/** The time by the clock of this command, in UTC epoch milliseconds. */
export const { now, offsetMs: clockOffsetMs } = commandClock;
