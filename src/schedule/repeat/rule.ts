import { capitalized } from '../../system/base/text.ts';
import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import { ruleZone } from '../../system/base/zone.ts';
import { months, weekdays, writeOrdinal } from './grammar/names.ts';

/** The moment of a job from which its rule counts. */
export type BaseMoment = 'scheduled' | 'started' | 'finished';

/** The moments of a job's last run in epoch milliseconds; null: none. */
export type Moments = Readonly<Record<BaseMoment, number | null>>;

export type Unit = FixedUnit | 'month' | 'year';

export type StartUnit = Exclude<Unit, 'second' | 'minute'>;

/** One step from a moment to the next time, as in SQLite's date functions. */
export type Modifier =
  | { readonly kind: 'add'; readonly count: number; readonly unit: Unit }
  | { readonly kind: 'start-of'; readonly unit: StartUnit }
  /** 0 is Sunday. */
  | { readonly kind: 'weekday'; readonly weekday: number };

/** `SCHEDULED, +1 HOUR`, `DAILY`, `every 90 seconds`: steps from a moment, in UTC. */
interface MomentRule {
  readonly kind: 'moment';
  /** As it is stored. */
  readonly text: string;
  readonly base: BaseMoment;
  /** `every 90 seconds`: the pause is never shorter. The grammar of Bedrock drops the fraction of a second instead. */
  readonly isDelay?: true;
  readonly modifiers: readonly [Modifier, ...Modifier[]];
  /** Absent: none. */
  readonly limits?: RuleLimits;
  /** The zone of the limits. */
  readonly zone?: string | null;
}

/** When a rule has no time, whatever the rest of it says. */
export interface RuleLimits {
  /** Files with the dates on which it has none: paths from the root. */
  readonly except: readonly string[];
  /** A time outside of it comes when it opens; null: no such window. */
  readonly between: DayWindow | null;
}

/** A part of each day, in minutes of the day. It goes over midnight if it ends before it begins. */
export interface DayWindow {
  readonly from: number;
  /** The first minute that is outside. */
  readonly to: number;
}

/**
 * The days of a rule. Weekdays are 1 for Monday to 7 for Sunday. A day that a month lacks means the month's last day.
 */
export type CalendarDay =
  | { readonly period: 'daily' }
  | { readonly period: 'weekly'; readonly weekdays: readonly number[] }
  | { readonly period: 'monthly'; readonly days: readonly number[] }
  | NthDays
  | { readonly period: 'yearly'; readonly month: number; readonly day: number }
  | CronDays;

/** The first and third Friday, the second last working day of a month. */
export interface NthDays {
  readonly period: 'monthly';
  /** Counted from 1; -1 is the last one, -2 the second last. */
  readonly nth: readonly number[];
  readonly kind: DayKind;
}

/** A weekday, any day, or a day from Monday to Friday that is none of the dates that the rule excepts. */
export type DayKind = number | 'day' | 'working day';

/** Every few days, weeks or months from a date, counted from 1970-01-01. Weeks begin on Monday. */
export interface Rhythm {
  readonly unit: 'day' | 'week' | 'month';
  readonly count: number;
  readonly from: number;
}

/** The days of a rule: those of `on` in each day, week or month of its rhythm, if it has one. */
export interface RuleDays {
  readonly on: CalendarDay;
  readonly rhythm?: Rhythm;
}

/**
 * The days of cron's fields. With `isBoth` a day must be in `days` and in `weekdays`; otherwise one of them is enough.
 */
interface CronDays {
  readonly period: 'cron';
  /** A month that lacks a day leaves it out. */
  readonly days: readonly number[];
  readonly months: readonly number[];
  readonly weekdays: readonly number[];
  readonly isBoth: boolean;
}

/** `daily at 10:00 in Europe/Berlin`: local times. */
export interface CalendarRule extends RuleDays {
  readonly kind: 'calendar';
  /** As it is stored. */
  readonly text: string;
  /** Minutes of the day, ascending. */
  readonly times: readonly number[];
  /**
   * `every 15min`: an interval follows what the clocks show, as in cron. It leaves out a time that the clocks skip and
   * has twice a time that they show twice. Other times occur once on each day, whatever the clocks do.
   */
  readonly isInterval?: true;
  /** Null: the zone of the settings, otherwise the zone of the host that computes the time. */
  readonly zone: string | null;
  /** Absent: none. */
  readonly limits?: RuleLimits;
}

/** The rule by which a finished job is queued again. */
export type RepeatRule = MomentRule | CalendarRule;

/** Whether a text is meant as a rule in plain words or as cron's fields. `DAILY` alone is a rule of Bedrock. */
export function isPlainRule(text: string): boolean {
  return /^\s*(?:(?:every|on|at)\b|(?:daily|weekly)\s+\S|(?:monthly|yearly|weekdays|weekends)(?:\s|$)|[@*\d])/i.test(
    text,
  );
}

/** Whether a text is meant as cron's five fields, or as a word for them such as `@daily`. */
export function isCronRule(text: string): boolean {
  return /^\s*[@*\d]/.test(text);
}

/** Explains a rule in one sentence: "Runs again 1 hour after the time for which it was scheduled." */
export function explainRepeat(rule: RepeatRule): string {
  return rule.kind === 'moment' ? explainMoment(rule) : explainCalendar(rule);
}

const baseWords: Readonly<Record<BaseMoment, string>> = {
  scheduled: 'the time for which it was scheduled',
  started: 'the time at which it started',
  finished: 'the time at which it finished',
};

function explainMoment({ base, modifiers, limits, zone }: MomentRule): string {
  const [first, ...others] = modifiers;
  const from = baseWords[base];
  if (first.kind === 'add' && others.length === 0) {
    const when = `${explainAmount(first)} ${first.count < 0 ? 'before' : 'after'} ${from}`;
    return `Runs again ${when}${limits === undefined ? '' : explainLimits(limits, ` in ${nameZone(zone)}`)}.`;
  }
  return `Runs again at a time counted in UTC from ${from}: ${modifiers.map(explainStep).join(', then ')}.`;
}

function explainStep(modifier: Modifier): string {
  if (modifier.kind === 'start-of') return `back to the beginning of the ${modifier.unit}`;
  if (modifier.kind === 'add') {
    return `${explainAmount(modifier)} ${modifier.count < 0 ? 'earlier' : 'later'}`;
  }
  // The names begin with Monday, the numbers with Sunday.
  const name = capitalized(weekdays[(modifier.weekday + 6) % 7] ?? '');
  return `on to ${name} unless it is one`;
}

function explainAmount({ count, unit }: { readonly count: number; readonly unit: string }): string {
  const amount = Math.abs(count);
  return `${amount} ${unit}${amount === 1 ? '' : 's'}`;
}

function explainCalendar({ on, rhythm, times, zone, limits }: CalendarRule): string {
  const interval = findInterval(times);
  const days = rhythm === undefined ? explainDay(on) : explainRhythm(rhythm, on);
  const isEvery = isEveryDay(on) && rhythm === undefined;
  const when = interval === null ? `${days} ${explainTimes(times)}` : explainInterval(days, isEvery, interval);
  return `Runs ${when} in ${nameZone(zone)}${limits === undefined ? '' : explainLimits(limits)}.`;
}

function nameZone(zone: string | null | undefined): string {
  return zone ?? `the zone of this root, ${ruleZone()}`;
}

/** The end of a sentence; `where` names the zone if the sentence has not. */
function explainLimits({ except, between }: RuleLimits, where = ''): string {
  const dates = except.length === 0 ? '' : `, but not on the dates in ${listWords(except)}`;
  if (between === null) return dates + where;
  const [from, to] = [formatTime(between.from), formatTime(between.to)];
  const window = `, ${dates === '' ? 'but' : 'and'} only between ${from} and ${to}${where}`;
  return `${dates}${window}: any other time comes at ${from}`;
}

/** `every 2 weeks from 30 November 2026 on Monday and Friday` */
function explainRhythm({ unit, count, from }: Rhythm, on: CalendarDay): string {
  const date = new Date(from * DAY_MS);
  const name = capitalized(months[date.getUTCMonth()] ?? '');
  const every = count === 1 ? `every ${unit}` : `every ${explainAmount({ count, unit })}`;
  const start = `${every} from ${date.getUTCDate()} ${name} ${date.getUTCFullYear()}`;
  return on.period === 'daily'
    ? start
    : `${start} ${explainDay(on)
        .replace(/^every/, 'on')
        .replace(/ of every month\b/, '')}`;
}

/** Evenly spaced times of a day, in minutes. */
interface Interval {
  readonly first: number;
  readonly last: number;
  readonly step: number;
}

function findInterval(times: readonly number[]): Interval | null {
  const [first = 0, second = first, last = first] = [times[0], times[1], times.at(-1)];
  const step = second - first;
  const isEven = times.length > 2 && times.every((time, index) => time === first + index * step);
  return isEven ? { first, last, step } : null;
}

const DAY_MINUTES = 1440;

/** `every 2 hours`; if it does not cover all days, with the days before it: `every Monday, every 2 hours`. */
function explainInterval(days: string, isEveryDay: boolean, { first, last, step }: Interval): string {
  const isHours = step % 60 === 0;
  const unit = isHours ? 'hour' : 'minute';
  const count = isHours ? step / 60 : step;
  const every = count === 1 ? `every ${unit}` : `every ${explainAmount({ count, unit })}`;
  const isWholeDay = first === 0 && last + step >= DAY_MINUTES;
  if (isWholeDay && last + step === DAY_MINUTES && isEveryDay) return every;
  const window = isWholeDay ? '' : ` from ${formatTime(first)} to ${formatTime(last % DAY_MINUTES)}`;
  return `${days.replace(/,$/, '')}, ${every}${window}`;
}

function isEveryDay(on: CalendarDay): boolean {
  if (on.period !== 'cron') return on.period === 'daily';
  const { days, months: numbers, weekdays: names, isBoth } = on;
  return isBoth && days.length === 31 && numbers.length === 12 && names.length === 7;
}

const MOST_TIMES = 6;

function explainTimes(times: readonly number[]): string {
  if (times.length <= MOST_TIMES) return `at ${listWords(times.map(formatTime))}`;
  const first = times.slice(0, MOST_TIMES - 1).map(formatTime);
  return `at ${first.join(', ')} and so on, ${times.length} times,`;
}

/** `07:30` */
function formatTime(minute: number): string {
  return [Math.floor(minute / 60), minute % 60].map((part) => String(part).padStart(2, '0')).join(':');
}

function explainDay(on: CalendarDay): string {
  if (on.period === 'daily') return 'every day';
  if (on.period === 'cron') return explainCron(on);
  if (on.period === 'weekly') return explainWeekdays(on.weekdays);
  if (on.period === 'yearly') {
    const date = `every year on ${on.day} ${capitalized(months[on.month - 1] ?? '')}`;
    return on.day === 29 && on.month === 2 ? `${date}, or 28 February,` : date;
  }
  if ('nth' in on) {
    const kind = typeof on.kind === 'number' ? nameWeekday(on.kind) : on.kind;
    return `on the ${listWords(on.nth.map(writeOrdinal))} ${kind} of every month`;
  }
  if (on.days.join() === '31') return 'on the last day of every month';
  const days = `on day ${listWords(on.days)} of every month`;
  return on.days.some((day) => day > 28) ? `${days}, or on its last one,` : days;
}

function explainCron({ days, months: numbers, weekdays: names, isBoth }: CronDays): string {
  const monthNames = numbers.map((month) => capitalized(months[month - 1] ?? ''));
  const inMonths = numbers.length === 12 ? '' : ` in ${listWords(monthNames)}`;
  const onDays = `on day ${listWords(days)}${inMonths === '' ? ' of every month' : ''}`;
  const onWeekdays = explainWeekdays(names);
  if (names.length === 7 && isBoth) return days.length === 31 ? `every day${inMonths}` : `${onDays}${inMonths}`;
  if (days.length === 31 && isBoth) return `${onWeekdays}${inMonths}`;
  return isBoth ? `${onWeekdays} that is ${onDays.slice(3)}${inMonths}` : `${onDays} and ${onWeekdays}${inMonths}`;
}

function explainWeekdays(numbers: readonly number[]): string {
  const [first = 0, last = first] = [numbers[0], numbers.at(-1)];
  const isRange = numbers.length > 2 && last - first === numbers.length - 1;
  if (isRange) return `every day from ${nameWeekday(first)} to ${nameWeekday(last)}`;
  return `every ${listWords(numbers.map(nameWeekday))}`;
}

function nameWeekday(weekday: number): string {
  return capitalized(weekdays[weekday - 1] ?? '');
}

/** "1, 2 and 3" */
function listWords(words: readonly (string | number)[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

export const SECOND_MS = 1000;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';

export const fixedUnitMs: Readonly<Record<FixedUnit, number>> = {
  second: SECOND_MS,
  minute: MINUTE_MS,
  hour: 3_600_000,
  day: DAY_MS,
};

/** The calendar of the rules: years of four digits. */
const FIRST_INSTANT = Date.parse('0000-01-01T00:00:00Z');
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

/** Also false for NaN. */
export function isInCalendar(atMs: number): boolean {
  return atMs >= FIRST_INSTANT && atMs <= LAST_INSTANT;
}

const form =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[ T](?<time>\d\d:\d\d)(?::(?<second>\d\d)(?<fraction>\.\d{1,9})?)?(?<zone>Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Epoch milliseconds of `2026-03-10` (midnight), `2026-03-10 13:00`, `2026-03-10 13:00:00`: in UTC unless the text has
 * a zone such as `Z` or `+01:00`. Null for any other text.
 */
export function parseInstant(text: string): number | null {
  const parts = form.exec(text.trim())?.groups;
  if (parts === undefined) return null;
  const { date, time = '00:00', second = '00', fraction = '', zone = 'Z' } = parts;
  const wallMs = Date.parse(`${date}T${time}:${second}Z`);
  // `Date` reads February 30th as March 2nd, and 24:00 as the next day.
  if (Number.isNaN(wallMs) || formatInstant(wallMs) !== `${date} ${time}:${second}`) return null;
  const atMs = Date.parse(`${date}T${time}:${second}${fraction}${zone}`);
  return Number.isNaN(atMs) ? null : atMs;
}

/** `2026-03-10 13:00:00`, in UTC. */
export function formatInstant(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}
