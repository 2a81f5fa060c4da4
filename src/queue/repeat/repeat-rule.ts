/** The moment of a job from which a rule counts. */
export type BaseMoment = 'scheduled' | 'started' | 'finished';

/** The moments of a job's last run in epoch milliseconds; null: there was none. */
export type Moments = Readonly<Record<BaseMoment, number | null>>;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';
export type CalendarUnit = 'month' | 'year';

/** One step from a moment to the next time, as SQLite's date functions make it. */
export type Modifier =
  | { readonly kind: 'add'; readonly count: number; readonly unit: FixedUnit | CalendarUnit }
  | { readonly kind: 'start-of'; readonly unit: 'hour' | 'day' | CalendarUnit }
  /** 0 is Sunday. */
  | { readonly kind: 'weekday'; readonly weekday: number };

/** `SCHEDULED, +1 HOUR`, `DAILY`, `every 90 seconds`: steps from a moment, in UTC. */
export interface MomentRule {
  readonly kind: 'moment';
  /** As it is stored. */
  readonly text: string;
  readonly base: BaseMoment;
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

/** A rule, or one sentence that says what is wrong in it. */
export type ParsedRepeat = { readonly rule: RepeatRule } | { readonly problem: string };
