import type { Temporal as TemporalTypes } from 'temporal-polyfill';
import { isInCalendar } from './apply-modifiers.ts';
import type { CalendarDay, CalendarRule } from './repeat-rule.ts';
import type { TimeSeries } from './time-series.ts';
import { hostZone } from './time-zone.ts';

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
