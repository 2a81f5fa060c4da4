import type { ScriptOptions } from '../settings/readers.ts';
import { latestTime } from './repeat/calendar.ts';
import { parseSchedule } from './repeat/parse.ts';
import type { CalendarRule } from './repeat/rule.ts';

/** What is known of a script whose schedule is asked. UTC epoch milliseconds. */
export interface ScriptTimes {
  /** For which time it was queued last; null: never. */
  readonly queuedFor: number | null;
  /** When the last pass of its tier began that has come to its end; null: there was none. */
  readonly passAt: number | null;
  /** When its file came to be where it is, as it is; null: nobody knows. */
  readonly changedAt: number | null;
  /** How often its tier is called; null: nobody knows. */
  readonly periodMs: number | null;
  readonly nowMs: number;
}

/** A clock that is set back by more was wrong before: times come again. Cron draws the same line. */
const CORRECTION_MS = 3 * 3_600_000;

/** Of a tier whose name tells no period, the time of a day is looked for. */
const DAY_MS = 24 * 3_600_000;

/**
 * The time of its schedule that a script is to be run for now: the last one that has come since it was queued, and
 * since a pass last looked; null: none has. What came before a schedule was written is not made up for: a pass has
 * looked since. Of a script that was never queued, its file tells: cron's line has run for the times before an import.
 */
export async function dueTime(rule: CalendarRule, times: ScriptTimes): Promise<number | null> {
  const { queuedFor, passAt, changedAt, periodMs, nowMs } = times;
  const isTrue = (at: number | null): at is number => at !== null && at <= nowMs + CORRECTION_MS;
  const looked = isTrue(passAt) ? passAt : nowMs - (periodMs ?? DAY_MS);
  // A file of the future has a wrong time, or this clock has.
  const since = queuedFor ?? (changedAt !== null && changedAt <= nowMs ? changedAt : null);
  const afterMs = isTrue(since) ? Math.max(looked, since) : looked;
  return afterMs >= nowMs ? null : await latestTime(rule, { afterMs, upToMs: nowMs });
}

/** A pass may come an hour late, be it that one calls `runner due` once an hour. */
const LATE_MS = 3_600_000;

/** So long after its time a script of the tier runs at the latest where each pass takes place. */
export function usualLatenessMs(periodMs: number | null): number {
  return (periodMs ?? DAY_MS) + LATE_MS;
}

/** The rule of a script's schedule; null: it has none, or one that cannot be read, for which it is refused. */
export function ruleOf({ schedule, timezone }: ScriptOptions): CalendarRule | null {
  if (schedule === undefined) return null;
  const parsed = parseSchedule(schedule, timezone ?? null);
  return 'rule' in parsed ? parsed.rule : null;
}
