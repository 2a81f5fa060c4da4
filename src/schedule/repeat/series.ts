import type { MissedPolicy } from '../../store/words.ts';
import { DAY_MS } from '../../system/base/values.ts';
import { calendarSeries, nextTimeAfter, type TimeSeries } from './calendar.ts';
import {
  type BaseMoment,
  fixedUnitMs,
  isInCalendar,
  LAST_INSTANT,
  type Modifier,
  type Moments,
  type RepeatRule,
  SECOND_MS,
  type StartUnit,
} from './rule.ts';

/** The moment from which a rule counts. The next day of a calendar follows the scheduled one. */
function baseOf(rule: RepeatRule): BaseMoment {
  return rule.kind === 'calendar' ? 'scheduled' : rule.base;
}

/**
 * The next time by the rule alone, in epoch milliseconds and whole seconds, even if it has passed. `planNext` decides
 * when the job runs.
 *
 * @returns null if the job lacks the moment from which the rule counts, as with `STARTED` in a job that has never run;
 * also beyond the year 9999
 */
export async function nextTime(rule: RepeatRule, moments: Moments): Promise<number | null> {
  const baseMs = moments[baseOf(rule)];
  if (baseMs === null) return null;
  if (rule.kind === 'calendar') return await nextTimeAfter(rule, baseMs);
  const at = applyModifiers(rule.isDelay ? Math.ceil(baseMs / SECOND_MS) * SECOND_MS : baseMs, rule.modifiers);
  return at === null ? null : await firstAllowed(rule, at);
}

/** The first moment from `atMs` on that the limits of a rule allow; null: none. */
async function firstAllowed(rule: RepeatRule, atMs: number): Promise<number | null> {
  if (rule.limits === undefined) return atMs;
  const { openLimits } = await import('./limits.ts');
  return (await openLimits(rule)).firstFrom(atMs);
}

/** Whether a rule leaves the calendar at once, so that it never gives a time. */
export function leadsNowhere(rule: RepeatRule, fromMs: number): boolean {
  return rule.kind === 'moment' && applyModifiers(fromMs, rule.modifiers) === null;
}

/**
 * When a job that was added without a time is first due: at once; with a rule such as `daily at 10:00`, the next time
 * that the rule gives.
 */
export async function initialTime(rule: RepeatRule, nowMs: number): Promise<number> {
  const at = rule.kind === 'moment' ? await firstAllowed(rule, nowMs) : await nextTimeAfter(rule, nowMs);
  return at ?? nowMs;
}

const WEEK_MS = 7 * DAY_MS;

/** The first Sunday of 1970. */
const FIRST_SUNDAY = 3 * DAY_MS;

/**
 * Applies one modifier after the other as SQLite's `datetime(at, modifier)` does: in UTC, in whole seconds. Null if one
 * of them leaves the years 0 to 9999.
 */
export function applyModifiers(atMs: number, modifiers: readonly Modifier[]): number | null {
  let at = startOfStep(atMs, SECOND_MS);
  for (const modifier of modifiers) {
    at = applyModifier(at, modifier);
    if (!isInCalendar(at)) return null;
  }
  return isInCalendar(at) ? at : null;
}

function applyModifier(atMs: number, modifier: Modifier): number {
  if (modifier.kind === 'start-of') return startOf(atMs, modifier.unit);
  if (modifier.kind === 'weekday') return moveToWeekday(atMs, modifier.weekday);
  const { count, unit } = modifier;
  if (unit === 'month') return addMonths(atMs, count);
  return unit === 'year' ? addMonths(atMs, 12 * count) : atMs + count * fixedUnitMs[unit];
}

function startOf(atMs: number, unit: StartUnit): number {
  if (unit === 'hour' || unit === 'day') return startOfStep(atMs, fixedUnitMs[unit]);
  const date = new Date(startOfStep(atMs, DAY_MS));
  return unit === 'month' ? date.setUTCDate(1) : date.setUTCMonth(0, 1);
}

/** Rounds down, also before 1970. */
function startOfStep(atMs: number, stepMs: number): number {
  return Math.floor(atMs / stepMs) * stepMs;
}

/** Moves forward to the next such weekday, unless the moment is on one; the time of day stays. */
function moveToWeekday(atMs: number, weekday: number): number {
  const days = Math.floor((atMs - FIRST_SUNDAY) / DAY_MS) - weekday;
  return atMs + (((-days % 7) + 7) % 7) * DAY_MS;
}

/** A day that the month lacks becomes a day of the next month: January 31st becomes March 3rd. */
function addMonths(atMs: number, count: number): number {
  const date = new Date(atMs);
  return date.setUTCMonth(date.getUTCMonth() + count);
}

/** Times at a fixed distance. */
interface Stretch {
  /** The index of its first time in the whole series. */
  readonly index: number;
  readonly at: number;
  readonly stepMs: number;
}

/**
 * The times that modifiers give from a first one on, each computed from the one before. While the steps keep their
 * length, arithmetic replaces the walk: years of missed minutes take no time.
 */
export function momentSeries(firstMs: number, modifiers: readonly Modifier[], nowMs: number): TimeSeries {
  const stretches: Stretch[] = [];
  let [passed, at] = [0, firstMs];
  for (let stepMs = 1; at <= nowMs && stepMs > 0; ) {
    stepMs = Math.max(0, (applyModifiers(at, modifiers) ?? at) - at);
    stretches.push({ index: passed, at, stepMs });
    const steps = stepMs === 0 ? 1 : Math.min(Math.floor((nowMs - at) / stepMs) + 1, stepsAlike(at, stepMs, modifiers));
    passed += steps;
    at += steps * stepMs;
  }
  if (at > nowMs) stretches.push({ index: passed, at, stepMs: 0 });
  const timeAt = (index: number): number | null => {
    const found = stretches.findLast((stretch) => stretch.index <= index);
    if (found === undefined || (found.stepMs === 0 && index > found.index)) return null;
    return found.at + (index - found.index) * found.stepMs;
  };
  return { passed, timeAt };
}

/** How many steps from this moment are as long as this one: 1 or more. */
function stepsAlike(atMs: number, stepMs: number, modifiers: readonly Modifier[]): number {
  let [at, most] = [atMs, Number.POSITIVE_INFINITY];
  const endAt = (end: number): void => {
    most = Math.min(most, Math.ceil((Math.min(end, LAST_INSTANT + 1) - at) / stepMs));
  };
  for (const modifier of modifiers) {
    endAt(alikeUntil(at, stepMs, modifier));
    at = applyModifier(at, modifier);
  }
  endAt(LAST_INSTANT + 1);
  return most;
}

/** The instant up to which a modifier moves every moment that is whole steps later by as much as this one. */
function alikeUntil(atMs: number, stepMs: number, modifier: Modifier): number {
  const { kind } = modifier;
  if (kind === 'weekday') {
    return stepMs % WEEK_MS === 0 ? Number.POSITIVE_INFINITY : startOfStep(atMs, DAY_MS) + DAY_MS;
  }
  const isOfMonths = modifier.unit === 'month' || modifier.unit === 'year';
  if (kind === 'add') return isOfMonths ? addMonths(startOf(atMs, 'month'), 1) : Number.POSITIVE_INFINITY;
  return !isOfMonths && stepMs % fixedUnitMs[modifier.unit] === 0 ? Number.POSITIVE_INFINITY : atMs + 1;
}

/** The next run of a repeating job that has finished. */
export interface PlannedTime {
  /** When the run is due; in the past if it makes up for a missed time. */
  readonly runAt: number;
  /** The time that the rule gave; the next one is counted from it. */
  readonly scheduledFor: number;
  /** How many missed times are not made up for. */
  readonly skipped: number;
}

export interface PlanOptions {
  /** For times that have passed: run `all` of them, run `once` for all, or `skip` them. */
  readonly missed: MissedPolicy;
  readonly nowMs: number;
  /** Most missed times that `all` makes up for: the latest ones. */
  readonly cap: number;
}

/** Shortest pause after the end of a run; a rule that advances from its scheduled time needs none. */
const PAUSE_MS = 1000;

/**
 * The next run of a repeating job that has finished.
 *
 * @returns null if its rule gives no further time, as `nextTime` explains
 */
export async function planNext(
  rule: RepeatRule,
  moments: Moments,
  { missed, nowMs, cap }: PlanOptions,
): Promise<PlannedTime | null> {
  const baseMs = moments[baseOf(rule)];
  const firstMs = await nextTime(rule, moments);
  if (baseMs === null || firstMs === null) return null;
  const soonestMs = Math.max(moments.finished ?? nowMs, nowMs) + PAUSE_MS;
  const earliestMs = (await firstAllowed(rule, soonestMs)) ?? soonestMs;
  const soon = { runAt: earliestMs, scheduledFor: earliestMs };
  // The job would be due again and again: `FINISHED, +0 SECONDS`, `SCHEDULED, START OF DAY`.
  if (firstMs <= baseMs) return { ...soon, skipped: 0 };
  const { passed, timeAt } = await seriesFrom(rule, { baseMs, firstMs }, nowMs);
  const skipped = { all: Math.max(0, passed - cap), once: Math.max(0, passed - 1), skip: passed };
  const at = timeAt(skipped[missed]);
  if (at === null) return { ...soon, skipped: skipped[missed] };
  const dueAt = missed === 'once' ? Math.max(at, nowMs) : at;
  // A rule that counts from the scheduled time catches up with it. The catching up ends by itself and needs no pause.
  const isPrompt = baseOf(rule) === 'scheduled' && (rule.limits === undefined || dueAt > nowMs);
  const runAt = isPrompt ? dueAt : Math.max(dueAt, earliestMs);
  return { runAt, scheduledFor: at, skipped: skipped[missed] };
}

async function seriesFrom(
  rule: RepeatRule,
  { baseMs, firstMs }: { readonly baseMs: number; readonly firstMs: number },
  nowMs: number,
): Promise<TimeSeries> {
  if (rule.kind === 'moment') return momentSeries(firstMs, rule.modifiers, nowMs);
  return (await calendarSeries(rule, baseMs, nowMs)) ?? { passed: 0, timeAt: () => firstMs };
}

/** The times that a rule gives, passed or not. */
interface ListedTimes {
  /** Epoch milliseconds; fewer than requested if the rule ends. */
  readonly times: readonly number[];
  /** A time is not later than the one before it: only `PAUSE_MS` limits how often such a rule runs. */
  readonly isStuck: boolean;
}

/** Computes each further time as if the job had been scheduled, started and finished at the time before. */
export async function listTimes(rule: RepeatRule, moments: Moments, count: number): Promise<ListedTimes> {
  const times: number[] = [];
  let isStuck = false;
  for (let last = moments; times.length < count; ) {
    const next = await nextTime(rule, last);
    if (next === null) break;
    isStuck ||= next <= (last[baseOf(rule)] ?? next);
    times.push(next);
    last = { scheduled: next, started: next, finished: next };
  }
  return { times, isStuck };
}

/** The runs for which a job would be queued if each run took no time. */
export async function listPlans(
  rule: RepeatRule,
  moments: Moments,
  options: Pick<PlanOptions, 'missed' | 'cap' | 'nowMs'>,
  count: number,
): Promise<readonly PlannedTime[]> {
  const plans: PlannedTime[] = [];
  let [last, nowMs] = [moments, options.nowMs];
  while (plans.length < count) {
    const plan = await planNext(rule, last, { ...options, nowMs });
    if (plan === null) break;
    plans.push(plan);
    nowMs = Math.max(nowMs, plan.runAt);
    last = { scheduled: plan.scheduledFor, started: nowMs, finished: nowMs };
  }
  return plans;
}
