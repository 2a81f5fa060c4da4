export const SECOND_MS = 1000;
export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';

export const fixedUnitMs: Readonly<Record<FixedUnit, number>> = {
  second: SECOND_MS,
  minute: MINUTE_MS,
  hour: 3_600_000,
  day: DAY_MS,
};

/** The calendar of the rules: years of four digits. */
const FIRST_INSTANT = Date.parse('0000-01-01T00:00:00Z');
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

/** Also false for NaN. */
export function isInCalendar(atMs: number): boolean {
  return atMs >= FIRST_INSTANT && atMs <= LAST_INSTANT;
}

const form =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[ T](?<time>\d\d:\d\d)(?::(?<second>\d\d)(?<fraction>\.\d{1,9})?)?(?<zone>Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Epoch milliseconds of `2026-03-10` (midnight), `2026-03-10 13:00`, `2026-03-10 13:00:00`: in UTC unless the text has
 * a zone such as `Z` or `+01:00`. Null for any other text.
 */
export function parseInstant(text: string): number | null {
  const parts = form.exec(text.trim())?.groups;
  if (parts === undefined) return null;
  const { date, time = '00:00', second = '00', fraction = '', zone = 'Z' } = parts;
  const wallMs = Date.parse(`${date}T${time}:${second}Z`);
  // `Date` reads February 30th as March 2nd, and 24:00 as the next day.
  if (Number.isNaN(wallMs) || formatInstant(wallMs) !== `${date} ${time}:${second}`) return null;
  const atMs = Date.parse(`${date}T${time}:${second}${fraction}${zone}`);
  return Number.isNaN(atMs) ? null : atMs;
}

/** `2026-03-10 13:00:00`, in UTC. */
export function formatInstant(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}
