import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import { ruleZone } from '../../system/base/zone.ts';
import { type CalendarRule, isInCalendar, LAST_INSTANT } from './rule.ts';
import { isDayOf, REPEATS_AFTER_DAYS } from './rule-days.ts';
import { firstOpen, openZone, type Stretch } from './stretches.ts';

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
    if (!isOfDay) ofDay = daysAfter(clock, afterMs).next().value ?? [];
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
  const firstDay = clock.startOf(Math.max(clock.dayOf(afterMs), clock.dayOf(upToMs) - REPEATS_AFTER_DAYS));
  for (let day = clock.dayOf(upToMs) + 1; day >= firstDay; day -= 1) {
    const atMs = clock.timesOn(day).findLast((each) => each <= upToMs);
    if (atMs !== undefined) return atMs > afterMs ? atMs : null;
  }
  return null;
}

/**
 * The shortest time between two times of a rule, in milliseconds, on a clock that never changes. Infinity for a rule
 * that has only one time.
 */
export function shortestGapMs(rule: CalendarRule, fromMs: number): number {
  const times = openTimesOfDay(rule);
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  const gaps = times.slice(1).map((time, index) => (time - (times[index] as number)) * MINUTE_MS);
  let before: number | null = null;
  const start = Math.max(Math.floor(fromMs / DAY_MS), rule.rhythm?.from ?? Number.NEGATIVE_INFINITY);
  for (let day = start; day <= start + REPEATS_AFTER_DAYS; day += 1) {
    if (!isDayOf(rule, day)) continue;
    if (before !== null) gaps.push((day - before) * DAY_MS + (first - last) * MINUTE_MS);
    if (before !== null && day > start + GAP_DAYS) break;
    before = day;
  }
  // Times that a window moves to the same moment are one.
  return Math.min(...gaps.filter((gap) => gap > 0));
}

/** The times of a day, moved into the window of the rule; the day after follows as the minutes from 1440. */
function openTimesOfDay({ times, limits }: CalendarRule): readonly number[] {
  const window = limits?.between ?? null;
  if (window === null) return times;
  return times.map((time) => firstOpen(window, timeless, time * MINUTE_MS) / MINUTE_MS);
}

const timeless = () => ({ fromMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY, offsetMs: 0 });

/** Four years contain all differences between months and between years. */
const GAP_DAYS = 4 * 366;

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
  for (const times of daysAfter(clock, afterMs)) {
    const left = times.findIndex((atMs) => atMs > nowMs);
    passed += left === -1 ? times.length : left;
    if (left !== -1) break;
  }
  const timeAt = (index: number): number | null => {
    let left = index;
    for (const times of daysAfter(clock, afterMs)) {
      if (left < times.length) return times[left] ?? null;
      left -= times.length;
    }
    return null;
  };
  return { passed, timeAt };
}

/** The times after a moment, day by day; no day is empty. */
function* daysAfter(clock: Clock, afterMs: number): Generator<readonly number[], undefined> {
  let lastMs = afterMs;
  let lastDay = clock.dayOf(afterMs);
  for (let day = clock.startOf(lastDay); day - lastDay <= REPEATS_AFTER_DAYS; day += 1) {
    if ((day - 1) * DAY_MS > LAST_INSTANT) return;
    const all = clock.timesOn(day);
    if (all.length === 0) continue;
    lastDay = day;
    const times = all.filter((atMs) => atMs > lastMs && isInCalendar(atMs));
    if (times.length > 0) yield times;
    lastMs = times.at(-1) ?? lastMs;
  }
}

/** Local time in a rule's zone. */
interface Clock {
  /** The local day of an instant, counted from 1970-01-01. */
  dayOf(atMs: number): number;
  /** A day from which to look for times that come on a day: those of days before it come earlier. */
  startOf(day: number): number;
  /** The times that the rule has for a day, ascending; none if the day is not one of the rule's. */
  timesOn(day: number): readonly number[];
}

async function openClock(rule: CalendarRule): Promise<Clock> {
  const { times, zone, isInterval } = rule;
  const stretchAt = await openZone(zone ?? ruleZone());
  const limits = rule.limits === undefined ? null : await (await import('./limits.ts')).openLimits(rule);
  return {
    dayOf: (atMs) => Math.floor((atMs + stretchAt(atMs).offsetMs) / DAY_MS),
    // Include the day before: clocks that are set back at midnight return to it.
    startOf: (day) => limits?.startOf(day) ?? day - 1,
    timesOn: (day) => {
      if (!isDayOf(rule, day, limits?.isExcepted)) return [];
      const startMs = day * DAY_MS;
      // A window that begins at night may end on the next day.
      const stretches = [stretchAt(startMs - DAY_MS)];
      for (let last = stretches[0] as Stretch; last.untilMs < startMs + 3 * DAY_MS; ) {
        last = stretchAt(last.untilMs);
        stretches.push(last);
      }
      const walls = times.map((time) => startMs + time * MINUTE_MS);
      const all = isInterval === true ? shownAt(walls, stretches) : comingAt(walls, stretches);
      return limits === null ? all : limits.keep(all);
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
