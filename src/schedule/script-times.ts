import type { ScriptOptions } from '../settings/settings.ts';
import { DAY_MS } from '../system/base/values.ts';
import { ruleZone } from '../system/base/zone.ts';
import { latestTime, nextTimeAfter } from './repeat/calendar.ts';
import { parseSchedule } from './repeat/grammar/parse.ts';
import { type CalendarRule, LAST_INSTANT } from './repeat/rule.ts';
import { nextOpening, parseWindow } from './repeat/window.ts';

/** The facts from which the due time of a script follows. UTC epoch milliseconds. */
export interface ScriptTimes {
  /** The time of its schedule for which it was last queued; null: never. */
  readonly queuedFor: number | null;
  /** Start of the last pass of its tier that has ended; null: none. */
  readonly passAt: number | null;
  /** When the present file came to its present place; null: unknown. */
  readonly changedAt: number | null;
  /** Time between two calls of its tier, in milliseconds; null: unknown. */
  readonly periodMs: number | null;
  readonly nowMs: number;
}

/** A clock that is set back by more than this was wrong before, so the times come again. Cron has the same limit. */
const CORRECTION_MS = 3 * 3_600_000;

/**
 * The time of its schedule for which a script should run now: the last one since it was queued and since a pass last
 * looked; null: none. Times before a schedule was written are not made up for, because a pass has looked since. For a
 * script that was never queued the age of its file counts: before an import, the old crontab line ran it.
 */
export async function dueTime(rule: CalendarRule, times: ScriptTimes): Promise<number | null> {
  const { queuedFor, passAt, changedAt, periodMs, nowMs } = times;
  const isTrue = (at: number | null): at is number => at !== null && at <= nowMs + CORRECTION_MS;
  const looked = isTrue(passAt) ? passAt : nowMs - (periodMs ?? DAY_MS);
  // A file time in the future is wrong, or this clock is: ignore it.
  const since = queuedFor ?? (changedAt !== null && changedAt <= nowMs ? changedAt : null);
  const afterMs = isTrue(since) ? Math.max(looked, since) : looked;
  return afterMs >= nowMs ? null : await latestTime(rule, { afterMs, upToMs: nowMs });
}

/** The time of a rule for which a queued script would run. UTC epoch milliseconds. */
export interface RuleSlot {
  /** The last of all times that have come since it was queued: they are one run. */
  readonly at: number;
  /** The next time; null: none. */
  readonly nextMs: number | null;
  /** The beginning of the next time's day, or the next time itself if both are of one day; null: never. */
  readonly lapsesMs: number | null;
}

/** @param queuedFor the time of the rule for which the script was queued */
export async function slotAt(rule: CalendarRule, queuedFor: number, nowMs: number): Promise<RuleSlot> {
  const at = (await latestTime(rule, { afterMs: queuedFor, upToMs: nowMs })) ?? queuedFor;
  const nextMs = await nextTimeAfter(rule, at);
  return { at, nextMs, lapsesMs: nextMs === null ? null : await lapseBetween(at, nextMs, rule.zone ?? ruleZone()) };
}

async function lapseBetween(atMs: number, nextMs: number, zone: string): Promise<number> {
  const { Temporal } = await import('temporal-polyfill');
  const [day, nextDay] = [atMs, nextMs].map((each) =>
    Temporal.Instant.fromEpochMilliseconds(each).toZonedDateTimeISO(zone).startOfDay(),
  );
  const beginsMs = nextDay?.epochMilliseconds ?? nextMs;
  // A clock that is set back at midnight shows the old day once more.
  return beginsMs > atMs && beginsMs !== day?.epochMilliseconds ? beginsMs : nextMs;
}

/** How late a pass may come: `runner due` may be called only once an hour. */
const LATE_MS = 3_600_000;

/** The longest time, in milliseconds, from a script's due time to its run, if no pass is left out. */
export function usualLatenessMs(periodMs: number | null): number {
  return (periodMs ?? DAY_MS) + LATE_MS;
}

/** The rule of a script's schedule; null: the script has no schedule, or an unreadable one, for which it is refused. */
export function ruleOf({ schedule, timezone, except }: ScriptOptions): CalendarRule | null {
  if (schedule === undefined) return null;
  const parsed = parseSchedule(schedule, timezone ?? null);
  return 'rule' in parsed ? withExcept(parsed.rule, except) : null;
}

/** A rule without the dates that a script's `@except` leaves out. */
export function withExcept(rule: CalendarRule, except: ScriptOptions['except'] = []): CalendarRule {
  if (except.length === 0) return rule;
  const { limits } = rule;
  return { ...rule, limits: { between: limits?.between ?? null, except: [...(limits?.except ?? []), ...except] } };
}

/** The end of the dates on which passes leave out a script without a schedule; null: they do not at this moment. */
export async function leftOutUntil({ except, timezone }: ScriptOptions, atMs: number): Promise<number | null> {
  if (except === undefined) return null;
  const { openLimits } = await import('./repeat/limits.ts');
  const { firstFrom } = await openLimits({ limits: { except, between: null }, zone: timezone ?? null });
  const untilMs = firstFrom(atMs) ?? LAST_INSTANT;
  return untilMs > atMs ? untilMs : null;
}

/**
 * The first moment from `atMs` on at which a script may start by its `@between`: `atMs` itself, unless that is outside
 * of its window.
 */
export async function openingAt(options: ScriptOptions, atMs: number): Promise<number> {
  const { between, timezone } = options;
  const window = between === undefined ? null : parseWindow(between);
  // A script with an unreadable window is refused for it.
  if (window === null || 'fault' in window) return atMs;
  return await nextOpening(window, atMs, timezone ?? ruleOf(options)?.zone ?? null);
}
