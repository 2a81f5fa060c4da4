import { longestTimerMs, parseDurationMs } from './duration.ts';
import type { Reader } from './reading.ts';

/** How long a failed job waits before its next try. */
export interface RetryDelay {
  /** Before the second try. */
  readonly firstMs: number;
  /** By how much it grows with each further try; 1: always the same. */
  readonly factor: number;
  /** It never grows beyond this. */
  readonly longestMs: number;
}

const oneMinuteMs = 60_000;
const oneHourMs = 60 * oneMinuteMs;

/** Of scripts that are retried and say no more about it. */
export const defaultRetryDelay: RetryDelay = {
  firstMs: oneMinuteMs,
  factor: 1,
  longestMs: oneMinuteMs,
};

const expected =
  'a duration such as 5m, or exponential with a first and a longest one, such as exponential 1m 1h';

/** `5m`, `exponential`, `exponential 30s`, `exponential 30s 6h`. */
export const readRetryDelay: Reader<RetryDelay> = (found) => {
  const delay = typeof found === 'string' ? parseRetryDelay(found.trim()) : null;
  return delay === null ? { expected } : { value: delay };
};

function parseRetryDelay(text: string): RetryDelay | null {
  const [, rest] = /^exponential\b\s*(.*)$/.exec(text) ?? [];
  if (rest !== undefined) return parseExponential(rest);
  const delayMs = parseWaitMs(text);
  return delayMs === null ? null : { firstMs: delayMs, factor: 1, longestMs: delayMs };
}

/** A unit may stand apart from its number, so the words alone don't tell the two durations apart. */
function parseExponential(text: string): RetryDelay | null {
  const [first, longest, ...others] = text.match(/\d[\d.]*\s*[a-z]+/g) ?? [];
  if (others.length > 0 || text.replace(/\d[\d.]*\s*[a-z]+/g, '').trim() !== '') return null;
  const firstMs = first === undefined ? oneMinuteMs : parseWaitMs(first);
  if (firstMs === null) return null;
  const longestMs = longest === undefined ? Math.max(firstMs, oneHourMs) : parseWaitMs(longest);
  return longestMs === null || longestMs < firstMs ? null : { firstMs, factor: 2, longestMs };
}

function parseWaitMs(text: string): number | null {
  const waitMs = parseDurationMs(text);
  return waitMs !== null && waitMs <= longestTimerMs ? waitMs : null;
}
