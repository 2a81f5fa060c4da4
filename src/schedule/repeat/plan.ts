import type { MissedPolicy } from '../../store/words.ts';
import { calendarSeries, type TimeSeries } from './calendar.ts';
import type { Moments, RepeatRule } from './rule.ts';
import { baseOf, momentSeries, nextTime } from './series.ts';

/** For what a repeating job is queued once it has finished. */
export interface PlannedTime {
  /** When it is due; in the past if there are missed times to make up for. */
  readonly runAt: number;
  /** The time that the rule gave, from which the next one is counted. */
  readonly scheduledFor: number;
  /** How many missed times are not made up for. */
  readonly skipped: number;
}

export interface PlanOptions {
  /** What becomes of times that have passed: run `all` of them, run `once` for them, or `skip` them. */
  readonly missed: MissedPolicy;
  readonly nowMs: number;
  /** How many `all` makes up for at most: the latest. */
  readonly cap: number;
  /** What does not get ahead by its rule waits this long after it has finished. Default: 1 second. */
  readonly floorMs?: number;
}

const DEFAULT_FLOOR_MS = 1000;

/**
 * When a repeating job that has finished is to run again.
 *
 * @returns null where its rule gives no further time, as `nextTime` says
 */
export async function planNext(
  rule: RepeatRule,
  moments: Moments,
  { missed, nowMs, cap, floorMs = DEFAULT_FLOOR_MS }: PlanOptions,
): Promise<PlannedTime | null> {
  const baseMs = moments[baseOf(rule)];
  const firstMs = await nextTime(rule, moments);
  if (baseMs === null || firstMs === null) return null;
  const earliestMs = Math.max(moments.finished ?? nowMs, nowMs) + floorMs;
  const soon = { runAt: earliestMs, scheduledFor: earliestMs };
  // It would be due again and again: `FINISHED, +0 SECONDS`, `SCHEDULED, START OF DAY`.
  if (firstMs <= baseMs) return { ...soon, skipped: 0 };
  const { passed, timeAt } = await seriesFrom(rule, { baseMs, firstMs }, nowMs);
  const skipped = { all: Math.max(0, passed - cap), once: Math.max(0, passed - 1), skip: passed };
  const at = timeAt(skipped[missed]);
  if (at === null) return { ...soon, skipped: skipped[missed] };
  const dueAt = missed === 'once' ? Math.max(at, nowMs) : at;
  // What follows the schedule catches up with it: that ends by itself, and may go fast.
  const runAt = baseOf(rule) === 'scheduled' ? dueAt : Math.max(dueAt, earliestMs);
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

/** The times that a rule gives, whether they have passed or not. */
interface ListedTimes {
  /** Epoch milliseconds; fewer than asked for where the rule ends. */
  readonly times: readonly number[];
  /** One of them is not later than the moment before: only the floor keeps such a rule in check. */
  readonly isStuck: boolean;
}

/** Each further time is computed as if the job had been scheduled, started and finished at the one before. */
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

/** For what a job would be queued again and again, if each run took no time. */
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
