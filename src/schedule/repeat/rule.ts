import { hostZone } from './time.ts';

/** The moment of a job from which a rule counts. */
export type BaseMoment = 'scheduled' | 'started' | 'finished';

/** The moments of a job's last run in epoch milliseconds; null: there was none. */
export type Moments = Readonly<Record<BaseMoment, number | null>>;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';
export type Unit = FixedUnit | 'month' | 'year';

export type StartUnit = Exclude<Unit, 'second' | 'minute'>;

/** One step from a moment to the next time, as SQLite's date functions make it. */
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
  /** `every 90 seconds`: never less than these; the grammar of Bedrock drops the fraction of a second. */
  readonly isDelay?: true;
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

/** From Monday, which is 1. */
export const weekdays = 'monday tuesday wednesday thursday friday saturday sunday'.split(' ');

export const months = 'january february march april may june july august september october november december'.split(
  ' ',
);

/** One sentence of plain words: "Runs again 1 hour after the time for which it was scheduled." */
export function explainRepeat(rule: RepeatRule): string {
  return rule.kind === 'moment' ? explainMoment(rule) : explainCalendar(rule);
}

const baseWords: Readonly<Record<BaseMoment, string>> = {
  scheduled: 'the time for which it was scheduled',
  started: 'the time at which it started',
  finished: 'the time at which it finished',
};

function explainMoment({ base, modifiers }: MomentRule): string {
  const [first, ...others] = modifiers;
  const from = baseWords[base];
  if (first.kind === 'add' && others.length === 0) {
    return `Runs again ${explainAmount(first)} ${first.count < 0 ? 'before' : 'after'} ${from}.`;
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

function explainCalendar({ on, hour, minute, zone }: CalendarRule): string {
  const time = [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');
  const where = zone ?? `the zone of this host, ${hostZone()}`;
  return `Runs ${explainDay(on)} at ${time} in ${where}.`;
}

function explainDay(on: CalendarDay): string {
  if (on.period === 'daily') return 'every day';
  if (on.period === 'weekly') return `every ${capitalized(weekdays[on.weekday - 1] ?? '')}`;
  if (on.period === 'yearly') {
    const date = `every year on ${on.day} ${capitalized(months[on.month - 1] ?? '')}`;
    return on.day === 29 && on.month === 2 ? `${date}, or 28 February,` : date;
  }
  if (on.day === 31) return 'on the last day of every month';
  const day = `on day ${on.day} of every month`;
  return on.day > 28 ? `${day}, or on its last one,` : day;
}

function capitalized(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}
