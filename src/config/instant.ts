/** The last instant that a date can hold, in UTC epoch milliseconds. */
export const lastInstantMs = 8.64e15;

/** Whether a date can be made of it: a row that plain SQL has written may hold anything. */
export function isInstant(found: unknown): found is number {
  return typeof found === 'number' && Math.abs(found) <= lastInstantMs;
}
