import { applyModifiers } from './apply-modifiers.ts';
import { calendarSeries } from './calendar-series.ts';
import type { BaseMoment, Moments, RepeatRule } from './repeat-rule.ts';

/** The moment from which a rule counts: a calendar's next day follows the one that was scheduled. */
export function baseOf(rule: RepeatRule): BaseMoment {
  return rule.kind === 'calendar' ? 'scheduled' : rule.base;
}

/**
 * The next time by the rule alone, in epoch milliseconds and whole seconds, even if it has passed
 * already: `planNext` says when the job is run.
 *
 * @returns null without the moment from which the rule counts, as with `STARTED` in a job that has
 *   never run; and beyond the year 9999
 */
export async function nextTime(rule: RepeatRule, moments: Moments): Promise<number | null> {
  const baseMs = moments[baseOf(rule)];
  if (baseMs === null) return null;
  if (rule.kind === 'moment') return applyModifiers(baseMs, rule.modifiers);
  const series = await calendarSeries(rule, baseMs, baseMs);
  return series?.timeAt(0) ?? null;
}

/** Whether a rule leads out of the calendar at once: it would never give a time. */
export function leadsNowhere(rule: RepeatRule, fromMs: number): boolean {
  return rule.kind === 'moment' && applyModifiers(fromMs, rule.modifiers) === null;
}

/**
 * When a job is first due that was added without a time: at once, but with a rule such as
 * `daily at 10:00` the next time that its clock shows that.
 */
export async function initialTime(rule: RepeatRule, nowMs: number): Promise<number> {
  if (rule.kind === 'moment') return nowMs;
  const series = await calendarSeries(rule, nowMs, nowMs);
  return series?.timeAt(0) ?? nowMs;
}
