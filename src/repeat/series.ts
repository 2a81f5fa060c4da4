import type { Temporal as TemporalTypes } from 'temporal-polyfill';
import {
  applyModifiers,
  type BaseMoment,
  type CalendarDay,
  type CalendarRule,
  fixedUnitMs,
  hostZone,
  isInCalendar,
  type Modifier,
  type Moments,
  type RepeatRule,
  SECOND_MS,
  WEEK_MS,
} from './rule.ts';

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
  if (rule.kind === 'moment') return applyModifiers(baseMs, rule.modifiers);
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

/** The times that a rule gives one after the other, up to one that has not passed. */
export interface TimeSeries {
  /** How many of its times have passed. */
  readonly passed: number;
  /** From 0, which is the first; `passed` is the first in the future. Null: there is none. */
  timeAt(index: number): number | null;
}

/** More steps than these are never made, whatever a rule says: a few milliseconds. */
const MOST_STEPS = 10_000;

/**
 * The times that modifiers give from a first one on, each computed from the one before. Years of
 * missed minutes are not walked through: once the times repeat in a fixed distance, it is arithmetic.
 * A rule that never does (months in it) and has more times than can be walked through goes on from now.
 */
export function momentSeries(
  firstMs: number,
  modifiers: readonly Modifier[],
  nowMs: number,
): TimeSeries {
  const { times, cycle, isEnded } = walk(firstMs, modifiers, nowMs);
  if (cycle !== null) return cyclicSeries(times, cycle, nowMs);
  if (isEnded) return listSeries(times, nowMs);
  const fresh = applyModifiers(nowMs, modifiers);
  const future = fresh !== null && fresh > nowMs ? fresh : null;
  return { passed: times.length, timeAt: () => future };
}

/** From the time at `start` on, each `steps` times the same distances follow. */
interface Cycle {
  readonly start: number;
  readonly steps: number;
  readonly lengthMs: number;
}

interface Walk {
  readonly times: readonly number[];
  readonly cycle: Cycle | null;
  /** It has come to a time that has not passed, or to one from which the rule does not get further. */
  readonly isEnded: boolean;
}

function walk(firstMs: number, modifiers: readonly Modifier[], nowMs: number): Walk {
  const alikeMs = alikeAfterMs(modifiers);
  const times = [firstMs];
  const seen = new Map<number, number>();
  for (let at = firstMs; at <= nowMs; ) {
    const place = alikeMs === null ? null : at % alikeMs;
    const start = place === null ? undefined : seen.get(place);
    if (start !== undefined) return { times, cycle: cycleFrom(times, start), isEnded: true };
    if (place !== null) seen.set(place, times.length - 1);
    if (times.length >= MOST_STEPS) return { times, cycle: null, isEnded: false };
    const next = applyModifiers(at, modifiers);
    if (next === null || next <= at) break;
    times.push(next);
    at = next;
  }
  return { times, cycle: null, isEnded: true };
}

function cycleFrom(times: readonly number[], start: number): Cycle {
  const end = times.length - 1;
  return { start, steps: end - start, lengthMs: (times[end] ?? 0) - (times[start] ?? 0) };
}

/**
 * Moved by this much, a moment is moved by as much by the modifiers, too; null where that is so by
 * nothing shorter than 400 years.
 */
function alikeAfterMs(modifiers: readonly Modifier[]): number | null {
  const steps = modifiers.map((modifier) => {
    if (modifier.kind === 'weekday') return WEEK_MS;
    const { unit } = modifier;
    if (unit === 'month' || unit === 'year') return Number.POSITIVE_INFINITY;
    return modifier.kind === 'add' ? SECOND_MS : fixedUnitMs[unit];
  });
  const longest = Math.max(...steps);
  return longest === Number.POSITIVE_INFINITY ? null : longest;
}

function listSeries(times: readonly number[], nowMs: number): TimeSeries {
  return {
    passed: times.filter((time) => time <= nowMs).length,
    timeAt: (index) => times[index] ?? null,
  };
}

function cyclicSeries(times: readonly number[], cycle: Cycle, nowMs: number): TimeSeries {
  const { start, steps, lengthMs } = cycle;
  const timeAt = (index: number): number => {
    if (index < start) return times[index] ?? 0;
    const turns = Math.floor((index - start) / steps);
    return (times[index - turns * steps] ?? 0) + turns * lengthMs;
  };
  const turns = Math.floor((nowMs - timeAt(start)) / lengthMs);
  let passed = start + turns * steps;
  while (timeAt(passed) <= nowMs) passed += 1;
  return { passed, timeAt };
}

type PlainDate = TemporalTypes.PlainDate;

/** The times of a rule that come after a moment; null outside of the years 0 to 9999. */
export async function calendarSeries(
  rule: CalendarRule,
  afterMs: number,
  nowMs: number,
): Promise<TimeSeries | null> {
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
