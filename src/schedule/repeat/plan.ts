import type { MissedPolicy } from '../../store/words.ts';
import { calendarSeries, type TimeSeries } from './calendar.ts';
import type { Moments, RepeatRule } from './rule.ts';
import { baseOf, momentSeries, nextTime } from './series.ts';

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
  /**
   * Shortest pause after the end of a run, in milliseconds; a rule that advances from its scheduled time needs none.
   * Default: 1000.
   */
  readonly floorMs?: number;
}

const DEFAULT_FLOOR_MS = 1000;

/**
 * The next run of a repeating job that has finished.
 *
 * @returns null if its rule gives no further time, as `nextTime` explains
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
  // The job would be due again and again: `FINISHED, +0 SECONDS`, `SCHEDULED, START OF DAY`.
  if (firstMs <= baseMs) return { ...soon, skipped: 0 };
  const { passed, timeAt } = await seriesFrom(rule, { baseMs, firstMs }, nowMs);
  const skipped = { all: Math.max(0, passed - cap), once: Math.max(0, passed - 1), skip: passed };
  const at = timeAt(skipped[missed]);
  if (at === null) return { ...soon, skipped: skipped[missed] };
  const dueAt = missed === 'once' ? Math.max(at, nowMs) : at;
  // A rule that counts from the scheduled time catches up with it. The catching up ends by itself and needs no pause.
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

/** The times that a rule gives, passed or not. */
interface ListedTimes {
  /** Epoch milliseconds; fewer than requested if the rule ends. */
  readonly times: readonly number[];
  /** A time is not later than the one before it: only `floorMs` limits how often such a rule runs. */
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
