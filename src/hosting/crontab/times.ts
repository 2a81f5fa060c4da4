import type { Sieve } from '../../schedule/crontab-times.ts';
import { seededNumber } from './minutes.ts';
import { type CronPeriod, parseCronPeriod, stepSeconds } from './period.ts';

/** After the hours that a clock change skips or repeats (Eastern Europe: 3 to 4), before work. */
const QUIET_HOURS = [4, 5];

/** As they are written, or a pattern for them. */
interface Moment {
  readonly minute: string | number;
  readonly hour: string | number;
  readonly weekday: string | number;
  readonly day: string | number;
  readonly month: string | number;
}

/** The five time fields for a call; what is not its minute follows from the root's path and its name. */
export function timesOf(root: string, name: string, period: CronPeriod, minute: number): string {
  const number = seededNumber(`${root}\0${name}`);
  return timeFields(period, {
    minute,
    hour: period.unit === 'hour' ? number % period.step : (QUIET_HOURS[number % 2] ?? 4),
    weekday: Math.floor(number / 2) % 7,
    // Every month has a 28th.
    day: 1 + (Math.floor(number / 2) % 28),
    month: 1 + (Math.floor(number / 97) % 12),
  });
}

/** Whether times are as they would be written for that period, at whatever minute, hour and day. */
export function areTimesOf(period: CronPeriod, times: string): boolean {
  const any = String.raw`\d+`;
  const fields = timeFields(period, { minute: any, hour: any, weekday: any, day: any, month: any });
  const pattern = fields.replaceAll('*', String.raw`\*`);
  return new RegExp(`^${pattern}$`).test(times);
}

function timeFields(period: CronPeriod, { minute, hour, weekday, day, month }: Moment): string {
  switch (period.unit) {
    case 'minute':
      return `${stepField(period.step, minute, 59)} * * * *`;
    case 'hour':
      return `${minute} ${stepField(period.step, hour, 23)} * * *`;
    case 'day':
      return `${minute} ${hour} * * *`;
    case 'week':
      return `${minute} ${hour} * * ${weekday}`;
    case 'month':
      return `${minute} ${hour} ${day} * *`;
    case 'year':
      return `${minute} ${hour} ${day} ${month} *`;
  }
}

function stepField(step: number, from: string | number, last: number): string {
  return step === 1 ? '*' : `${from}-${last}/${step}`;
}

/**
 * Which firings of its line the script lets through, as cron.sh counts them: `7min`, `5hours` and `3days` are more than
 * cron's own fields can say. Null: each one.
 *
 * @param times of the line, whose hour tells where in its day it fires
 */
export function sieveOf(name: string, times: string): Sieve | null {
  const period = parseCronPeriod(name);
  if (period === null || period.nth === 1) return null;
  const step = stepSeconds(period);
  if (period.unit !== 'day') return { shift: 0, step, nth: period.nth };
  // By the date on the wall: from the middle of the day, so that summer time alters nothing.
  const [minute = 0, hour = 0] = times.split(/\s+/).map((field) => Number.parseInt(field, 10) || 0);
  const shift = step / 2 - (hour * 60 + minute + standardOffsetMinutes()) * 60;
  return { shift, step, nth: period.nth };
}

/** January's. */
function standardOffsetMinutes(): number {
  return new Date(new Date().getFullYear(), 0, 1).getTimezoneOffset();
}
