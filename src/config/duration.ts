import ms from 'ms';

/** Timers cannot wait longer: with more, Node's `setTimeout` fires at once. */
export const longestTimerMs = 2 ** 31 - 1;

const LONGEST_DAYS = 100_000;

/** Nobody waits longer, and with any of these, before or after now, there is a date. */
export const longestDurationMs = LONGEST_DAYS * 24 * 60 * 60 * 1000;

const form =
  /^\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)$/;

/** Milliseconds of `30s`, `10m`, `1.5 hours`; null unless it is a positive number with its unit. */
export function parseDurationMs(text: string): number | null {
  const durationMs = toMs(text);
  return durationMs > 0 && durationMs <= longestDurationMs ? durationMs : null;
}

/** The same for a wait, which may also be none: `0s`, `0`. */
export function parseDelayMs(text: string): number | null {
  const isNone = text === '0' || (form.test(text) && toMs(text) === 0);
  return isNone ? 0 : parseDurationMs(text);
}

/** What to expect where this is no duration: one such as these, or a shorter one. */
export function expectedDuration(found: unknown, examples = '30s, 10m or 2h'): string {
  const isTooLong = typeof found === 'string' && toMs(found.trim()) > longestDurationMs;
  return isTooLong ? `a duration of at most ${LONGEST_DAYS}d` : `a duration such as ${examples}`;
}

function toMs(text: string): number {
  return form.test(text) ? Math.round(ms(text as ms.StringValue)) : 0;
}
