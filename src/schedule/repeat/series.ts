import type { Temporal as TemporalTypes } from 'temporal-polyfill';
import type {
  BaseMoment,
  CalendarDay,
  CalendarRule,
  FixedUnit,
  Modifier,
  Moments,
  RepeatRule,
  StartUnit,
} from './rule.ts';
import { hostZone } from './time.ts';

type PlainDate = TemporalTypes.PlainDate;

/** The moment from which a rule counts: a calendar's next day follows the one that was scheduled. */
export function baseOf(rule: RepeatRule): BaseMoment {
  return rule.kind === 'calendar' ? 'scheduled' : rule.base;
}

/**
 * The next time by the rule alone, in epoch milliseconds and whole seconds, even if it has passed
 * already: `planNext` says when the job is run.
 *
 * @returns null without the moment from which the rule counts, as with `STARTED` in a job that has
 *   never run; and beyond the year 9999
 */
export async function nextTime(rule: RepeatRule, moments: Moments): Promise<number | null> {
  const baseMs = moments[baseOf(rule)];
  if (baseMs === null) return null;
  if (rule.kind === 'moment')
    return applyModifiers(rule.isDelay ? Math.ceil(baseMs / SECOND_MS) * SECOND_MS : baseMs, rule.modifiers);
  const series = await calendarSeries(rule, baseMs, baseMs);
  return series?.timeAt(0) ?? null;
}

/** Whether a rule leads out of the calendar at once: it would never give a time. */
export function leadsNowhere(rule: RepeatRule, fromMs: number): boolean {
  return rule.kind === 'moment' && applyModifiers(fromMs, rule.modifiers) === null;
}

/**
 * When a job is first due that was added without a time: at once, but with a rule such as
 * `daily at 10:00` the next time that its clock shows that.
 */
export async function initialTime(rule: RepeatRule, nowMs: number): Promise<number> {
  if (rule.kind === 'moment') return nowMs;
  const series = await calendarSeries(rule, nowMs, nowMs);
  return series?.timeAt(0) ?? nowMs;
}

/** The calendar of the rules: the years that have four digits. */
const FIRST_INSTANT = Date.parse('0000-01-01T00:00:00Z');
const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

const SECOND_MS = 1000;
export const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;

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
function isInCalendar(atMs: number): boolean {
  return atMs >= FIRST_INSTANT && atMs <= LAST_INSTANT;
}

function applyModifier(atMs: number, modifier: Modifier): number {
  if (modifier.kind === 'start-of') return startOf(atMs, modifier.unit);
  if (modifier.kind === 'weekday') return moveToWeekday(atMs, modifier.weekday);
  const { count, unit } = modifier;
  if (unit === 'month') return addMonths(atMs, count);
  return unit === 'year' ? addMonths(atMs, 12 * count) : atMs + count * fixedUnitMs[unit];
}

function startOf(atMs: number, unit: StartUnit): number {
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

/** The times that a rule gives one after the other, up to one that has not passed. */
export interface TimeSeries {
  /** How many of its times have passed. */
  readonly passed: number;
  /** From 0, which is the first; `passed` is the first in the future. Null: there is none. */
  timeAt(index: number): number | null;
}

/** Times in a fixed distance. */
interface Stretch {
  /** Of its first time among all. */
  readonly index: number;
  readonly at: number;
  readonly stepMs: number;
}

/**
 * The times that modifiers give from a first one on, each computed from the one before. Years of missed
 * minutes are not walked through: as long as the steps stay as long as they are, it is arithmetic.
 */
export function momentSeries(firstMs: number, modifiers: readonly Modifier[], nowMs: number): TimeSeries {
  const stretches: Stretch[] = [];
  let [passed, at] = [0, firstMs];
  for (let stepMs = 1; at <= nowMs && stepMs > 0; ) {
    stepMs = Math.max(0, (applyModifiers(at, modifiers) ?? at) - at);
    stretches.push({ index: passed, at, stepMs });
    const steps = stepMs === 0 ? 1 : Math.min(Math.floor((nowMs - at) / stepMs) + 1, stepsAlike(at, stepMs, modifiers));
    passed += steps;
    at += steps * stepMs;
  }
  if (at > nowMs) stretches.push({ index: passed, at, stepMs: 0 });
  const timeAt = (index: number): number | null => {
    const found = stretches.findLast((stretch) => stretch.index <= index);
    if (found === undefined || (found.stepMs === 0 && index > found.index)) return null;
    return found.at + (index - found.index) * found.stepMs;
  };
  return { passed, timeAt };
}

/** How many steps are as long as this one, which the modifiers make from this moment: 1 or more. */
function stepsAlike(atMs: number, stepMs: number, modifiers: readonly Modifier[]): number {
  let [at, most] = [atMs, Number.POSITIVE_INFINITY];
  const endAt = (end: number): void => {
    most = Math.min(most, Math.ceil((Math.min(end, LAST_INSTANT + 1) - at) / stepMs));
  };
  for (const modifier of modifiers) {
    endAt(alikeUntil(at, stepMs, modifier));
    at = applyModifier(at, modifier);
  }
  endAt(LAST_INSTANT + 1);
  return most;
}

/** Before then, a modifier moves every moment that is so many steps later by as much as this one. */
function alikeUntil(atMs: number, stepMs: number, modifier: Modifier): number {
  const { kind } = modifier;
  if (kind === 'weekday') {
    return stepMs % WEEK_MS === 0 ? Number.POSITIVE_INFINITY : startOfStep(atMs, DAY_MS) + DAY_MS;
  }
  const isOfMonths = modifier.unit === 'month' || modifier.unit === 'year';
  if (kind === 'add') return isOfMonths ? addMonths(startOf(atMs, 'month'), 1) : Number.POSITIVE_INFINITY;
  return !isOfMonths && stepMs % fixedUnitMs[modifier.unit] === 0 ? Number.POSITIVE_INFINITY : atMs + 1;
}

/** The times of a rule that come after a moment; null outside of the years 0 to 9999. */
export async function calendarSeries(rule: CalendarRule, afterMs: number, nowMs: number): Promise<TimeSeries | null> {
  if (!isInCalendar(afterMs) || !isInCalendar(nowMs)) return null;
  // 18 ms to load: only for those who have such a rule.
  const { Temporal } = await import('temporal-polyfill');
  const zone = rule.zone ?? hostZone();
  const days = numberDays(Temporal, rule.on);
  const timeOf = (number: number): number => {
    const wall = days.dateOf(number).toPlainDateTime({ hour: rule.hour, minute: rule.minute });
    return instantOfWall(wall, zone);
  };
  const firstAfter = (atMs: number): number => {
    const local = Temporal.Instant.fromEpochMilliseconds(Math.floor(atMs));
    let number = days.numberOf(local.toZonedDateTimeISO(zone).toPlainDate());
    while (timeOf(number) <= atMs) number += 1;
    return number;
  };
  const first = firstAfter(afterMs);
  return {
    passed: Math.max(0, firstAfter(nowMs) - first),
    timeAt: (index) => inCalendar(timeOf(first + index)),
  };
}

function inCalendar(atMs: number): number | null {
  return isInCalendar(atMs) ? atMs : null;
}

/**
 * When the clocks of a zone first show this time. Where they skip it, as in spring, the moment at which
 * they go on: 03:00 for 02:30.
 */
function instantOfWall(wall: TemporalTypes.PlainDateTime, zone: string): number {
  const at = wall.toZonedDateTime(zone, { disambiguation: 'earlier' });
  if (at.toPlainDateTime().equals(wall)) return at.epochMilliseconds;
  return (at.getTimeZoneTransition('next') ?? at).epochMilliseconds;
}

/** The days of a rule, numbered without gaps: any of them is found without counting up to it. */
interface NumberedDays {
  dateOf(number: number): PlainDate;
  /** That of the day in the period that holds a date. */
  numberOf(date: PlainDate): number;
}

function numberDays(Temporal: typeof TemporalTypes, on: CalendarDay): NumberedDays {
  // A Monday.
  const start = Temporal.PlainDate.from('1970-01-05');
  const daysSince = (date: PlainDate): number => start.until(date, { largestUnit: 'days' }).days;
  const dayIn = (year: number, month: number, day: number): PlainDate =>
    Temporal.PlainDate.from({ year, month, day }, { overflow: 'constrain' });
  if (on.period === 'daily') {
    return { dateOf: (number) => start.add({ days: number }), numberOf: daysSince };
  }
  if (on.period === 'weekly') {
    return {
      dateOf: (number) => start.add({ days: 7 * number + on.weekday - 1 }),
      numberOf: (date) => Math.floor(daysSince(date) / 7),
    };
  }
  if (on.period === 'monthly') {
    return {
      dateOf: (number) => dayIn(Math.floor(number / 12), (((number % 12) + 12) % 12) + 1, on.day),
      numberOf: ({ year, month }) => 12 * year + month - 1,
    };
  }
  return { dateOf: (number) => dayIn(number, on.month, on.day), numberOf: ({ year }) => year };
}
