import ms from 'ms';

/** Timers cannot wait longer: with more, Node's `setTimeout` fires at once. */
export const longestTimerMs = 2 ** 31 - 1;

const form =
  /^\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)$/;

/** Milliseconds of `30s`, `10m`, `1.5 hours`; null unless it is a positive number with its unit. */
export function parseDurationMs(text: string): number | null {
  if (!form.test(text)) return null;
  const durationMs = Math.round(ms(text as ms.StringValue));
  return Number.isSafeInteger(durationMs) && durationMs > 0 ? durationMs : null;
}
