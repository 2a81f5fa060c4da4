import type { Sieve } from '../../schedule/crontab-times.ts';
import { parseTierPeriod } from '../../schedule/period.ts';

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
  const step = period.step * (period.unit === 'minute' ? 60 : period.unit === 'hour' ? 3600 : 86_400);
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

/** How often a tier runs, as cron can say it. */
export interface CronPeriod {
  readonly unit: CronUnit;
  /** Units between two firings of the crontab line; always a divisor of 60 minutes or 24 hours. */
  readonly step: number;
  /** The tier runs at each nth firing, which cron alone cannot express. */
  readonly nth: number;
}

type CronUnit = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year';

/** The period of a tier's name in cron's units; null for a tier that only runs by hand. */
export function parseCronPeriod(tier: string): CronPeriod | null {
  const period = parseTierPeriod(tier);
  if (period === null) return null;
  switch (period.unit) {
    case 'min':
      return everyMinutes(period.count);
    case 'hours':
      return everyHours(period.count);
    case 'days':
      return everyDays(period.count);
    default:
      return { unit: named[period.unit], step: 1, nth: period.count };
  }
}

/** Their counts are 1. */
const named = { weeks: 'week', months: 'month', years: 'year' } as const;

/** Cron starts a step of 7 afresh each hour: what does not divide it fires more often, sieved. */
function everyMinutes(count: number): CronPeriod {
  if (count % 60 === 0) return everyHours(count / 60);
  const step = greatestCommonDivisor(count, 60);
  return { unit: 'minute', step, nth: count / step };
}

function everyHours(count: number): CronPeriod {
  if (count % 24 === 0) return everyDays(count / 24);
  const step = greatestCommonDivisor(count, 24);
  return { unit: 'hour', step, nth: count / step };
}

/** Not a step of 3 as day of the month: that runs on the 31st and again on the 1st. */
function everyDays(count: number): CronPeriod {
  return { unit: 'day', step: 1, nth: count };
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** A call whose line needs a minute. */
export interface TimedCall {
  readonly name: string;
  readonly period: CronPeriod;
}

/** When everybody else's jobs on the machine start. */
const CROWDED_MINUTES = [0, 15, 30, 45];

/** Minutes between two starts that are far enough: a short pass is over by then. */
const ENOUGH_MINUTES = 3;

/** They have minutes of their own in each root, whether they are there or not. */
const RESERVED_TIERS = ['15min', 'hourly', 'daily', 'weekly', 'monthly', 'yearly'];

/**
 * The minute of each call, different from root to root. The minute of a usual tier follows from the root and its name
 * alone, so that it stays when other tiers come and go. The other tiers avoid these minutes, each other's, and those of
 * installed lines, as far as there are free minutes.
 *
 * @param kept minutes of installed lines, which stay
 */
export function chooseMinutes(
  root: string,
  calls: readonly TimedCall[],
  kept: ReadonlyMap<string, number> = new Map(),
): number[] {
  const installed = new Set(calls.flatMap(({ name, period }) => minutesOf(period, kept.get(name))));
  const reserved = reserveMinutes(root);
  const taken = new Set([...CROWDED_MINUTES, ...reserved.taken, ...installed]);
  return calls.map(({ name, period }) => {
    const own = kept.get(name) ?? reserved.minutes.get(name);
    const isFree = kept.has(name) || !minutesOf(period, own).some((minute) => installed.has(minute));
    if (own !== undefined && isFree) return own;
    const minute = freestMinute(period, taken, seededNumber(`${root}\0${name}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    return minute;
  });
}

function reserveMinutes(root: string) {
  const taken = new Set(CROWDED_MINUTES);
  const minutes = new Map<string, number>();
  for (const name of RESERVED_TIERS) {
    const period = parseCronPeriod(name) as CronPeriod;
    const minute = freestMinute(period, taken, seededNumber(`${root}\0${name}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    minutes.set(name, minute);
  }
  return { taken, minutes };
}

/** A number that is always the same for one text and different for most others. */
function seededNumber(text: string): number {
  // Loaded on first use: commands that only read the crontab save the 5 ms of `node:crypto`.
  return process.getBuiltinModule('node:crypto').createHash('sha256').update(text).digest().readUInt32BE();
}

function freestMinute(period: CronPeriod, taken: ReadonlySet<number>, start: number): number {
  const count = countOfMinutes(period);
  const candidates = Array.from({ length: count }, (_, index) => (start + index) % count);
  const gaps = candidates.map((minute) => gapTo(taken, minutesOf(period, minute)));
  return candidates[gaps.indexOf(Math.max(...gaps))] ?? 0;
}

/** Sieved hours use their first half: the script counts hours, also if cron is some minutes late. */
function countOfMinutes({ unit, step, nth }: CronPeriod): number {
  if (unit === 'minute') return step;
  return unit === 'hour' && nth > 1 ? 30 : 60;
}

/** The minutes of an hour in which such a line fires; none of one that nobody can keep clear of. */
function minutesOf({ unit, step }: CronPeriod, minute: number | undefined): number[] {
  if (minute === undefined || (unit === 'minute' && step === 1)) return [];
  if (unit !== 'minute') return [minute];
  return Array.from({ length: 60 / step }, (_, index) => minute + index * step);
}

function gapTo(taken: ReadonlySet<number>, minutes: readonly number[]): number {
  const distances = minutes.flatMap((minute) => [...taken].map((other) => distance(minute, other)));
  return Math.min(ENOUGH_MINUTES, ...distances);
}

function distance(a: number, b: number): number {
  const apart = Math.abs(a - b);
  return Math.min(apart, 60 - apart);
}
