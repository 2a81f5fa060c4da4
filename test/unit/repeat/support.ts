import { expect } from 'vitest';
import { parseRepeat } from '../../../src/schedule/repeat/grammar/parse.ts';
import {
  type CalendarRule,
  formatInstant,
  type Moments,
  parseInstant,
  type RepeatRule,
} from '../../../src/schedule/repeat/rule.ts';
import { nextTime, type PlanOptions, planNext } from '../../../src/schedule/repeat/series.ts';

/** The rule of a text that is one. */
export function ruleOf(text: string): RepeatRule {
  const parsed = parseRepeat(text);
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed.rule;
}

/** Null for one that is none. */
export function problemOf(text: string): string | null {
  const parsed = parseRepeat(text);
  return 'problem' in parsed ? parsed.problem : null;
}

export function at(text: string): number {
  const atMs = parseInstant(text);
  if (atMs === null) throw new Error(`no time: ${text}`);
  return atMs;
}

export type MomentTexts = Readonly<Record<keyof Moments, string>>;

export function momentsOf({ scheduled, started, finished }: MomentTexts) {
  return { scheduled: at(scheduled), started: at(started), finished: at(finished) };
}

/** A job that ran at the moment for which it was scheduled. */
export function ranAt(atMs: number): Readonly<Record<keyof Moments, number>> {
  return { scheduled: atMs, started: atMs, finished: atMs };
}

/** What the rule alone gives. */
export async function next(rule: string, moments: Moments): Promise<string | null> {
  const atMs = await nextTime(ruleOf(rule), moments);
  return atMs === null ? null : formatInstant(atMs);
}

/** What a job is queued for, with its times as text. */
export async function plan(
  rule: string,
  moments: Moments & { readonly finished: number },
  options: Partial<PlanOptions> = {},
) {
  const planned = await planNext(ruleOf(rule), moments, {
    missed: 'all',
    cap: 100,
    nowMs: moments.finished,
    ...options,
  });
  expect(planned).not.toBeNull();
  const { runAt = Number.NaN, scheduledFor = Number.NaN, skipped } = planned ?? {};
  return { runAt: formatInstant(runAt), scheduledFor: formatInstant(scheduledFor), skipped };
}

/** The rule of a text that goes by the calendar. */
export function calendarOf(text: string): CalendarRule {
  const rule = ruleOf(text);
  if (rule.kind !== 'calendar') throw new Error(`not of the calendar: ${text}`);
  return rule;
}
