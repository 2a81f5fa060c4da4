import { nearestName } from '../base/suggest.ts';

/** The moment of a job from which a rule counts. */
export type BaseMoment = 'scheduled' | 'started' | 'finished';

/** The moments of a job's last run in epoch milliseconds; null: there was none. */
export type Moments = Readonly<Record<BaseMoment, number | null>>;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';
export type CalendarUnit = 'month' | 'year';

/** One step from a moment to the next time, as SQLite's date functions make it. */
export type Modifier =
  | { readonly kind: 'add'; readonly count: number; readonly unit: FixedUnit | CalendarUnit }
  | { readonly kind: 'start-of'; readonly unit: 'hour' | 'day' | CalendarUnit }
  /** 0 is Sunday. */
  | { readonly kind: 'weekday'; readonly weekday: number };

/** `SCHEDULED, +1 HOUR`, `DAILY`, `every 90 seconds`: steps from a moment, in UTC. */
export interface MomentRule {
  readonly kind: 'moment';
  /** As it is stored. */
  readonly text: string;
  readonly base: BaseMoment;
  readonly modifiers: readonly [Modifier, ...Modifier[]];
}

/** A day in each of these periods. `day` 31 is the last one of any month. */
export type CalendarDay =
  | { readonly period: 'daily' }
  /** 1 is Monday, 7 is Sunday. */
  | { readonly period: 'weekly'; readonly weekday: number }
  | { readonly period: 'monthly'; readonly day: number }
  | { readonly period: 'yearly'; readonly month: number; readonly day: number };

/** `daily at 10:00 in Europe/Berlin`: a time by the clock on the wall. */
export interface CalendarRule {
  readonly kind: 'calendar';
  /** As it is stored. */
  readonly text: string;
  readonly on: CalendarDay;
  readonly hour: number;
  readonly minute: number;
  /** Null: that of the host that computes it. */
  readonly zone: string | null;
}

/** By which a job is queued again once it has finished. */
export type RepeatRule = MomentRule | CalendarRule;

/** A rule, or one sentence that says what is wrong in it. */
export type ParsedRepeat = { readonly rule: RepeatRule } | { readonly problem: string };

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

/** Whether there are clocks of that zone here: `Europe/Berlin`, `UTC`. */
export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The zone of this host; UTC where `TZ` names one that there is not, as `Date` has it then. */
export function hostZone(): string {
  const zone: string | undefined = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone !== undefined && isZone(zone) ? zone : 'UTC';
}

/** The zone that was probably meant: `Europe/Berlin` for `Europe/berln`, and for `berlin`. */
export function nearestZone(name: string): string | null {
  const zones = Intl.supportedValuesOf('timeZone');
  const city = `/${name.toLowerCase().replaceAll(' ', '_')}`;
  const ofCity = zones.find((zone) => zone.toLowerCase().endsWith(city));
  return ofCity ?? nearestName(name, zones);
}

const form =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[ T](?<time>\d\d:\d\d)(?::(?<second>\d\d)(?<fraction>\.\d{1,9})?)?(?<zone>Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Epoch milliseconds of `2026-03-10` (midnight), `2026-03-10 13:00`, `2026-03-10 13:00:00`: UTC unless
 * a zone is given, as `Z` or `+01:00`. Null for what is no such time.
 */
export function parseInstant(text: string): number | null {
  const parts = form.exec(text.trim())?.groups;
  if (parts === undefined) return null;
  const { date, time = '00:00', second = '00', fraction = '', zone = 'Z' } = parts;
  const wallMs = Date.parse(`${date}T${time}:${second}Z`);
  // `Date` takes February 30th for March 2nd, and 24:00 for the next day.
  if (Number.isNaN(wallMs) || formatInstant(wallMs) !== `${date} ${time}:${second}`) return null;
  const atMs = Date.parse(`${date}T${time}:${second}${fraction}${zone}`);
  return Number.isNaN(atMs) ? null : atMs;
}

/** `2026-03-10 13:00:00`, in UTC. */
export function formatInstant(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}

const longestShown = 80;

/** One sentence: which rule, and what is wrong in it. */
export function blameRule(text: string, fault: string): { readonly problem: string } {
  const end = /[.?]$/.test(fault) ? '' : '.';
  return { problem: `The repeat rule ${quote(text)} is wrong: ${fault}${end}` };
}

/** What was found, as JSON so that blanks and control characters are seen, and not all of a long one. */
export function quote(text: string): string {
  const letters = [...text];
  const shown =
    letters.length <= longestShown ? text : `${letters.slice(0, longestShown).join('')}…`;
  return JSON.stringify(shown);
}
