import type { FixedUnit, Modifier } from './repeat-rule.ts';

/** The calendar of the rules: the years that have four digits. */
const FIRST_INSTANT = Date.parse('0000-01-01T00:00:00Z');
const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

export const SECOND_MS = 1000;
export const DAY_MS = 86_400_000;
export const WEEK_MS = 7 * DAY_MS;

export const fixedUnitMs: Readonly<Record<FixedUnit, number>> = {
  second: SECOND_MS,
  minute: 60_000,
  hour: 3_600_000,
  day: DAY_MS,
};

/** The first instant of 1970 that was a Sunday. */
const FIRST_SUNDAY = 3 * DAY_MS;

/**
 * What SQLite's `datetime(at, modifier)` gives, for one modifier after the other: in UTC, in whole
 * seconds. Null where one of them leads out of the years 0 to 9999.
 */
export function applyModifiers(atMs: number, modifiers: readonly Modifier[]): number | null {
  let at = startOfStep(atMs, SECOND_MS);
  for (const modifier of modifiers) {
    at = applyModifier(at, modifier);
    if (!isInCalendar(at)) return null;
  }
  return isInCalendar(at) ? at : null;
}

/** False for what is no number, too. */
export function isInCalendar(atMs: number): boolean {
  return atMs >= FIRST_INSTANT && atMs <= LAST_INSTANT;
}

function applyModifier(atMs: number, modifier: Modifier): number {
  if (modifier.kind === 'start-of') return startOf(atMs, modifier.unit);
  if (modifier.kind === 'weekday') return moveToWeekday(atMs, modifier.weekday);
  const { count, unit } = modifier;
  if (unit === 'month') return addMonths(atMs, count);
  return unit === 'year' ? addMonths(atMs, 12 * count) : atMs + count * fixedUnitMs[unit];
}

function startOf(atMs: number, unit: 'hour' | 'day' | 'month' | 'year'): number {
  if (unit === 'hour' || unit === 'day') return startOfStep(atMs, fixedUnitMs[unit]);
  const date = new Date(startOfStep(atMs, DAY_MS));
  return unit === 'month' ? date.setUTCDate(1) : date.setUTCMonth(0, 1);
}

/** Downwards also before 1970. */
function startOfStep(atMs: number, stepMs: number): number {
  return Math.floor(atMs / stepMs) * stepMs;
}

/** Forward to the next such day, unless it is one; the time of day stays. */
function moveToWeekday(atMs: number, weekday: number): number {
  const days = Math.floor((atMs - FIRST_SUNDAY) / DAY_MS) - weekday;
  return atMs + (((-days % 7) + 7) % 7) * DAY_MS;
}

/** A day that the month does not have is one of the next month: January 31st becomes March 3rd. */
function addMonths(atMs: number, count: number): number {
  const date = new Date(atMs);
  return date.setUTCMonth(date.getUTCMonth() + count);
}
