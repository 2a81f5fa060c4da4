import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import type { CalendarDay, CalendarRule, NthDays, Rhythm, RuleDays } from './rule.ts';

/** The calendar repeats after 400 years. */
export const REPEATS_AFTER_DAYS = 146_097;

/**
 * Whether a rule has any time at all; 30 February has none.
 *
 * @param isExcepted whether its files of dates have a day
 */
export function hasTimes(rule: RuleDays & Pick<CalendarRule, 'times'>, isExcepted = (_: number) => false): boolean {
  const start = rule.rhythm?.from ?? 0;
  const days = new Set(rule.times.map((time) => Math.floor((time * MINUTE_MS) / DAY_MS)));
  for (let day = start; day < start + REPEATS_AFTER_DAYS; day += 1) {
    if (isDayOf(rule, day, isExcepted) && [...days].some((later) => !isExcepted(day + later))) return true;
  }
  return false;
}

/** Whether a rule's days include a day, counted from 1970-01-01. */
export function isDayOf({ on, rhythm }: RuleDays, day: number, isExcepted = (_: number) => false): boolean {
  if (rhythm !== undefined && !isInRhythm(rhythm, day)) return false;
  if (on.period === 'daily') return true;
  const date = new Date(day * DAY_MS);
  if (on.period === 'weekly') return on.weekdays.includes(weekdayOf(date));
  if (on.period === 'cron') return isCronDay(date, on);
  if (on.period === 'yearly') return date.getUTCMonth() + 1 === on.month && isDayOfMonth(date, [on.day]);
  if ('days' in on) return isDayOfMonth(date, on.days);
  return isNth(day, on, isExcepted);
}

function isInRhythm({ unit, count, from }: Rhythm, day: number): boolean {
  return day >= from && (periodOf(unit, day) - periodOf(unit, from)) % count === 0;
}

/** The number of the day, week or month, counted from any one. */
function periodOf(unit: Rhythm['unit'], day: number): number {
  if (unit === 'day') return day;
  // The first Monday of 1970 was 5 January.
  if (unit === 'week') return Math.floor((day - 4) / 7);
  const date = new Date(day * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
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

/** Whether a day is one of the nth of its kind in its month, from the first one or from the last one. */
function isNth(day: number, { nth, kind }: NthDays, isExcepted: (day: number) => boolean): boolean {
  const date = new Date(day * DAY_MS);
  const isKind = (each: number): boolean => {
    const weekday = weekdayOf(new Date(each * DAY_MS));
    return kind === 'working day' ? weekday <= 5 && !isExcepted(each) : kind === 'day' || weekday === kind;
  };
  if (!isKind(day)) return false;
  const first = day - date.getUTCDate() + 1;
  const all = Array.from({ length: 31 }, (_, index) => first + index).filter(
    (each) => isKind(each) && new Date(each * DAY_MS).getUTCMonth() === date.getUTCMonth(),
  );
  const index = all.indexOf(day);
  return nth.includes(index + 1) || nth.includes(index - all.length);
}

function isOtherMonth(date: Date, daysLater: number): boolean {
  return new Date(date.getTime() + daysLater * DAY_MS).getUTCMonth() !== date.getUTCMonth();
}
