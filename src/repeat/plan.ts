import type { MissedPolicy } from '../store/schema.ts';
import type { Moments, RepeatRule } from './rule.ts';
import { baseOf, calendarSeries, momentSeries, nextTime, type TimeSeries } from './series.ts';

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
  options: PlanOptions,
): Promise<PlannedTime | null> {
  const baseMs = moments[baseOf(rule)];
  const firstMs = await nextTime(rule, moments);
  if (baseMs === null || firstMs === null) return null;
  const earliestMs = earliestAfter(moments, options);
  // It would be due again and again: `FINISHED, +0 SECONDS`, `SCHEDULED, START OF DAY`.
  if (firstMs <= baseMs) return { runAt: earliestMs, scheduledFor: earliestMs, skipped: 0 };
  const series = await seriesFrom(rule, { baseMs, firstMs }, options.nowMs);
  const chosen = choose(series, options);
  if (chosen.at === null) {
    return { runAt: earliestMs, scheduledFor: earliestMs, skipped: chosen.skipped };
  }
  // What follows the schedule catches up with it: that ends by itself, and may go fast.
  const isCatchingUp = baseOf(rule) === 'scheduled';
  const runAt = isCatchingUp ? chosen.runAt : Math.max(chosen.runAt, earliestMs);
  return { runAt, scheduledFor: chosen.at, skipped: chosen.skipped };
}

function earliestAfter({ finished }: Moments, { nowMs, floorMs }: PlanOptions): number {
  return Math.max(finished ?? nowMs, nowMs) + (floorMs ?? DEFAULT_FLOOR_MS);
}

async function seriesFrom(
  rule: RepeatRule,
  { baseMs, firstMs }: { readonly baseMs: number; readonly firstMs: number },
  nowMs: number,
): Promise<TimeSeries> {
  if (rule.kind === 'moment') return momentSeries(firstMs, rule.modifiers, nowMs);
  return (await calendarSeries(rule, baseMs, nowMs)) ?? { passed: 0, timeAt: () => firstMs };
}

interface Choice {
  /** Null: the rule gives none in the future. */
  readonly at: number | null;
  readonly runAt: number;
  readonly skipped: number;
}

function choose({ passed, timeAt }: TimeSeries, { missed, nowMs, cap }: PlanOptions): Choice {
  const index = { all: Math.max(0, passed - cap), once: Math.max(0, passed - 1), skip: passed };
  const at = timeAt(index[missed]);
  const runAt = missed === 'once' ? Math.max(at ?? nowMs, nowMs) : (at ?? nowMs);
  return { at, runAt, skipped: index[missed] };
}
