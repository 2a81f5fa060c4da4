import { DAY_MS } from '../../system/base/values.ts';
import { ruleZone } from '../../system/base/zone.ts';
import { type Dates, type DatesProblem, readDates } from './dates.ts';
import { quote } from './grammar/fault.ts';
import { type RulesPlace, rulesPlace } from './place.ts';
import { type CalendarRule, isInCalendar, type RepeatRule } from './rule.ts';
import { hasTimes } from './rule-days.ts';
import { firstOpen, openZone } from './stretches.ts';

type CheckedRule = Pick<RepeatRule, 'text' | 'limits'> & Partial<Pick<CalendarRule, 'on' | 'rhythm' | 'times'>>;

/**
 * "its schedule … is wrong: holidays.txt:3: …", without a full stop, if a file of dates is wrong, or none of the rule's
 * times is left; null: all is right.
 */
export function describeDates(what: string, rule: CheckedRule, place = rulesPlace()): string | null {
  const files = rule.limits?.except ?? [];
  if (files.length === 0) return null;
  const read = files.map((file) => readFrom(place, file));
  const wrong = read.find((dates) => 'problem' in dates);
  if (wrong !== undefined) return `${what} ${quote(rule.text)} is wrong: ${wrong.problem}`;
  if (hasTimes({ on: { period: 'daily' }, times: [0], ...rule }, exceptedBy(read))) return null;
  return `${what} ${quote(rule.text)} is wrong: it never comes, as all of its days are in ${files.join(' and ')}`;
}

function exceptedBy(read: readonly (Dates | DatesProblem)[]): (day: number) => boolean {
  const usable = read.filter((dates) => 'has' in dates);
  return (day) => usable.some((dates) => dates.has(day));
}

/** A fault in the files of dates of a job's rule, as `describeDates` and `describeOver` word it; null: none. */
export function findDoubt(rule: CheckedRule): string | null {
  return describeDates('its repeat rule', rule) ?? describeOver(rule.limits?.except ?? [], rulesPlace());
}

/** "its file of dates holidays.txt ends on 2026-12-26: …", of files whose last date is over; null: there are none. */
export function describeOver(files: readonly string[], place: RulesPlace | null): string | null {
  const now = new Date();
  const today = Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) / DAY_MS;
  const over = files.flatMap((file) => {
    const dates = readFrom(place, file);
    const isOver = 'has' in dates && dates.last !== null && dates.last < today;
    return isOver ? `its file of dates ${file} ends on ${writeDay(dates.last as number)}: add the coming dates` : [];
  });
  return over.length === 0 ? null : over.join('; ');
}

/** `2026-12-26` */
function writeDay(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

function readFrom(place: RulesPlace | null, file: string): Dates | DatesProblem {
  if (place === null) return { problem: `${file} is a path from the root, and there is no root here` };
  return readDates(place.root, file, place.allowUnsafe);
}

/** The limits of a rule, with its files read. */
export interface OpenLimits {
  /** Whether the rule excepts a day, counted from 1970-01-01. */
  isExcepted(day: number): boolean;
  /** A day from which to look for times that come on a day: those of days before it come earlier. */
  startOf(day: number): number;
  /** The first moment from `atMs` on that the limits allow; null: none. */
  firstFrom(atMs: number): number | null;
  /** Leaves out the times on excepted dates, and moves the others into the window. */
  keep(times: readonly number[]): readonly number[];
}

/** More days in a row have no end. */
const MOST_EXCEPTED_DAYS = 4000;

/** A file that cannot be used excepts nothing: a job must not get lost with it. */
export async function openLimits({ limits, zone }: Pick<RepeatRule, 'limits' | 'zone'>): Promise<OpenLimits> {
  const stretchAt = await openZone(zone ?? ruleZone());
  const read = (limits?.except ?? []).map((file) => readFrom(rulesPlace(), file));
  const isExcepted = exceptedBy(read);
  const between = limits?.between ?? null;
  const dayOf = (atMs: number): number => Math.floor((atMs + stretchAt(atMs).offsetMs) / DAY_MS);
  const startOf = (day: number): number => {
    let open = 0;
    let start = day;
    // The clocks skip the window of at most one of two days that are not excepted.
    while (open < 2 && day - start < MOST_EXCEPTED_DAYS) {
      start -= 1;
      if (!isExcepted(start)) open += 1;
    }
    return start - 1;
  };
  const firstFrom = (atMs: number): number | null => {
    let at = atMs;
    for (let count = 0; count < MOST_EXCEPTED_DAYS && isInCalendar(at); count += 1) {
      if (between !== null) at = firstOpen(between, stretchAt, at);
      const day = dayOf(at);
      if (!isExcepted(day)) return at;
      const { offsetMs, untilMs } = stretchAt(at);
      at = Math.min((day + 1) * DAY_MS - offsetMs, untilMs);
    }
    return null;
  };
  const keep = (times: readonly number[]): readonly number[] => {
    const moved = times.filter((at) => !isExcepted(dayOf(at))).map(firstFrom);
    return [...new Set(moved.filter((at) => at !== null))];
  };
  return { isExcepted, startOf, firstFrom, keep };
}
