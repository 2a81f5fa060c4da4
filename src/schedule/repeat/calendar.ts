import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import { ruleZone } from '../../system/base/zone.ts';
import { type CalendarDay, type CalendarRule, isInCalendar, LAST_INSTANT } from './rule.ts';
import { openZone, type Stretch } from './stretches.ts';

/** The first time of a rule after a moment; null: none up to the year 9999. */
export async function nextTimeAfter(rule: CalendarRule, afterMs: number): Promise<number | null> {
  const next = await openTimes(rule);
  return next(afterMs);
}

/** Like `nextTimeAfter`, for any number of moments. It keeps the times of a day, so ascending moments are fast. */
export async function openTimes(rule: CalendarRule): Promise<(afterMs: number) => number | null> {
  const clock = await openClock(rule);
  let ofDay: readonly number[] = [];
  return (afterMs) => {
    if (!isInCalendar(afterMs)) return null;
    const isOfDay = ofDay.length > 0 && (ofDay[0] as number) <= afterMs && afterMs < (ofDay.at(-1) as number);
    if (!isOfDay) ofDay = daysAfter(rule, clock, afterMs).next().value ?? [];
    return ofDay.find((atMs) => atMs > afterMs) ?? null;
  };
}

/** The last time of a rule after `afterMs` and up to `upToMs`; null: none. */
export async function latestTime(
  rule: CalendarRule,
  { afterMs, upToMs }: { readonly afterMs: number; readonly upToMs: number },
): Promise<number | null> {
  if (!isInCalendar(upToMs)) return null;
  const clock = await openClock(rule);
  const firstDay = Math.max(clock.dayOf(afterMs), clock.dayOf(upToMs) - REPEATS_AFTER_DAYS) - 1;
  for (let day = clock.dayOf(upToMs) + 1; day >= firstDay; day -= 1) {
    const atMs = isDayOf(rule.on, day) ? clock.timesOn(day).findLast((each) => each <= upToMs) : undefined;
    if (atMs !== undefined) return atMs > afterMs ? atMs : null;
  }
  return null;
}

/**
 * The shortest time between two times of a rule, in milliseconds, on a clock that never changes. Infinity for a rule
 * that has only one time.
 */
export function shortestGapMs({ on, times }: CalendarRule, fromMs: number): number {
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  let shortest = Math.min(...times.slice(1).map((time, index) => time - (times[index] as number))) * MINUTE_MS;
  let before: number | null = null;
  const start = Math.floor(fromMs / DAY_MS);
  for (let day = start; day <= start + REPEATS_AFTER_DAYS; day += 1) {
    if (!isDayOf(on, day)) continue;
    if (before !== null) shortest = Math.min(shortest, (day - before) * DAY_MS + (first - last) * MINUTE_MS);
    if (before !== null && day > start + GAP_DAYS) break;
    before = day;
  }
  return shortest;
}

/** Four years contain all differences between months and between years. */
const GAP_DAYS = 4 * 366;

/** The calendar repeats after 400 years. */
const REPEATS_AFTER_DAYS = 146_097;

/** Whether a rule has any day at all; 30 February has none. */
export function hasDays(on: CalendarDay): boolean {
  for (let day = 0; day < REPEATS_AFTER_DAYS; day += 1) {
    if (isDayOf(on, day)) return true;
  }
  return false;
}

/** The successive times of a rule, up to one that has not passed. */
export interface TimeSeries {
  /** How many of the times have passed. */
  readonly passed: number;
  /** The time at an index from 0; `timeAt(passed)` is the first in the future. Null: none. */
  timeAt(index: number): number | null;
}

/** The times of a rule after a moment; null outside of the years 0 to 9999. */
export async function calendarSeries(rule: CalendarRule, afterMs: number, nowMs: number): Promise<TimeSeries | null> {
  if (!isInCalendar(afterMs) || !isInCalendar(nowMs)) return null;
  const clock = await openClock(rule);
  let passed = 0;
  for (const times of daysAfter(rule, clock, afterMs)) {
    const left = times.findIndex((atMs) => atMs > nowMs);
    passed += left === -1 ? times.length : left;
    if (left !== -1) break;
  }
  const timeAt = (index: number): number | null => {
    let left = index;
    for (const times of daysAfter(rule, clock, afterMs)) {
      if (left < times.length) return times[left] ?? null;
      left -= times.length;
    }
    return null;
  };
  return { passed, timeAt };
}

/** The times after a moment, day by day; no day is empty. */
function* daysAfter(rule: CalendarRule, clock: Clock, afterMs: number): Generator<readonly number[], undefined> {
  let lastMs = afterMs;
  let lastDay = clock.dayOf(afterMs);
  // Include the day before: clocks that are set back at midnight return to it.
  for (let day = lastDay - 1; day - lastDay <= REPEATS_AFTER_DAYS; day += 1) {
    if ((day - 1) * DAY_MS > LAST_INSTANT) return;
    if (!isDayOf(rule.on, day)) continue;
    lastDay = day;
    const times = clock.timesOn(day).filter((atMs) => atMs > lastMs && isInCalendar(atMs));
    if (times.length > 0) yield times;
    lastMs = times.at(-1) ?? lastMs;
  }
}

/** Whether a rule's days include a day, counted from 1970-01-01. */
function isDayOf(on: CalendarDay, day: number): boolean {
  if (on.period === 'daily') return true;
  const date = new Date(day * DAY_MS);
  if (on.period === 'weekly') return on.weekdays.includes(weekdayOf(date));
  if (on.period === 'cron') return isCronDay(date, on);
  if (on.period === 'yearly') return date.getUTCMonth() + 1 === on.month && isDayOfMonth(date, [on.day]);
  if ('days' in on) return isDayOfMonth(date, on.days);
  return weekdayOf(date) === on.weekday && isNth(date, on.nth);
}

function isCronDay(date: Date, { days, months, weekdays, isBoth }: Extract<CalendarDay, { period: 'cron' }>): boolean {
  if (!months.includes(date.getUTCMonth() + 1)) return false;
  const [isDay, isWeekday] = [days.includes(date.getUTCDate()), weekdays.includes(weekdayOf(date))];
  return isBoth ? isDay && isWeekday : isDay || isWeekday;
}

/** 1 is Monday, 7 is Sunday. */
function weekdayOf(date: Date): number {
  return date.getUTCDay() || 7;
}

function isDayOfMonth(date: Date, days: readonly number[]): boolean {
  const number = date.getUTCDate();
  return days.includes(number) || (number >= 28 && isOtherMonth(date, 1) && days.some((day) => day > number));
}

/** Whether a date is the nth of its weekday in its month; -1: the last one. */
function isNth(date: Date, nth: number): boolean {
  return nth === -1 ? isOtherMonth(date, 7) : Math.ceil(date.getUTCDate() / 7) === nth;
}

function isOtherMonth(date: Date, daysLater: number): boolean {
  return new Date(date.getTime() + daysLater * DAY_MS).getUTCMonth() !== date.getUTCMonth();
}

/** Local time in a rule's zone. */
interface Clock {
  /** The local day of an instant, counted from 1970-01-01. */
  dayOf(atMs: number): number;
  /** The times of the rule on a day, ascending. */
  timesOn(day: number): readonly number[];
}

async function openClock({ times, zone, isInterval }: CalendarRule): Promise<Clock> {
  const stretchAt = await openZone(zone ?? ruleZone());
  return {
    dayOf: (atMs) => Math.floor((atMs + stretchAt(atMs).offsetMs) / DAY_MS),
    timesOn: (day) => {
      const startMs = day * DAY_MS;
      // A window that begins at night may end on the next day.
      const stretches = [stretchAt(startMs - DAY_MS)];
      for (let last = stretches[0] as Stretch; last.untilMs < startMs + 3 * DAY_MS; ) {
        last = stretchAt(last.untilMs);
        stretches.push(last);
      }
      const walls = times.map((time) => startMs + time * MINUTE_MS);
      return isInterval === true ? shownAt(walls, stretches) : comingAt(walls, stretches);
    },
  };
}

/**
 * The first instants at which the clocks show these times. For a time that they skip, as in spring, the instant of the
 * change.
 */
function comingAt(walls: readonly number[], stretches: readonly Stretch[]): readonly number[] {
  const instants = walls.map((wall) => {
    const first = stretches.find(({ untilMs, offsetMs }) => wall - offsetMs < untilMs) as Stretch;
    return Math.max(wall - first.offsetMs, first.fromMs);
  });
  return [...new Set(instants)];
}

/** Every instant at which the clocks show these times. */
function shownAt(walls: readonly number[], stretches: readonly Stretch[]): readonly number[] {
  return stretches.flatMap(({ fromMs, untilMs, offsetMs }) =>
    walls.map((wall) => wall - offsetMs).filter((atMs) => fromMs <= atMs && atMs < untilMs),
  );
}
