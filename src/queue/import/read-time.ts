import { parseInstant } from '../repeat/instant.ts';
import { textOf, wrong } from './read-values.ts';

/** Epoch milliseconds of what a clock shows, which is told as if it were one of UTC. */
export type OfClock = (wallMs: number) => number;

/** The clock that shows UTC. */
export const ofUtc: OfClock = (wallMs) => wallMs;

/** Of `2026-07-31 13:00:00`, `2026-07-31`; null where there is none. @throws {QueueError} */
export function readTime(what: string, value: unknown, ofClock: OfClock): number | null {
  const text = textOf(value).trim();
  if (text === '') return null;
  const wallMs = parseInstant(text);
  if (wallMs !== null && wallMs >= 0) return ofClock(wallMs);
  throw wrong(`its ${what} is ${JSON.stringify(text)}, expected such as 2026-12-24 18:00:00`);
}

/** @throws {QueueError} also where there is none */
export function readNeededTime(what: string, value: unknown, ofClock: OfClock): number {
  const at = readTime(what, value, ofClock);
  if (at === null) throw wrong(`it has no ${what}`);
  return at;
}
