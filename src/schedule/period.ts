import { EXEC, isExecName } from '../system/base/exec-name.ts';
import { nearestName } from '../system/base/suggest.ts';
import { longestTimerMs } from '../system/base/values.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** Longest period, in days; a longer one is a typing error. */
const longestDays = 366;

type Unit = 'min' | 'hours' | 'days' | 'weeks' | 'months' | 'years';

interface TierPeriod {
  readonly count: number;
  readonly unit: Unit;
}

const named: ReadonlyMap<string, TierPeriod> = new Map([
  ['hourly', { count: 1, unit: 'hours' }],
  ['daily', { count: 1, unit: 'days' }],
  ['weekly', { count: 1, unit: 'weeks' }],
  ['monthly', { count: 1, unit: 'months' }],
  ['yearly', { count: 1, unit: 'years' }],
]);

/** A month of 31 days or a leap year is one day longer than nominal; a change of the clock adds some hours. */
const longestExcessMs = 2 * dayMs;

/** Months and years are nominal: 30 and 365 days, good enough for time limits and the report. */
const unitMs: Readonly<Record<Unit, number>> = {
  min: minuteMs,
  hours: hourMs,
  days: dayMs,
  weeks: 7 * dayMs,
  months: 30 * dayMs,
  years: 365 * dayMs,
};

/**
 * Milliseconds between two runs of the tier of this name: `15min`, `2hours`, `daily` …; null if the name has no period.
 */
export function tierPeriodMs(name: string): number | null {
  const period = parseTierPeriod(name);
  return period && period.count * unitMs[period.unit];
}

/** Like `tierPeriodMs`, for the tier's shortest period: February for a month, 365 days for a year. */
export function shortestPeriodMs(name: string): number | null {
  const period = parseTierPeriod(name);
  if (period === null) return null;
  return period.unit === 'months' ? period.count * SHORTEST_MONTH_MS : period.count * unitMs[period.unit];
}

const SHORTEST_MONTH_MS = 28 * dayMs;

/** Parses the name of a tier; null if it has no period. */
export function parseTierPeriod(name: string): TierPeriod | null {
  const counted = /^([1-9]\d{0,5})(min|hours|days)$/.exec(name);
  if (!counted) return named.get(name) ?? null;
  const period = { count: Number(counted[1]), unit: counted[2] as Unit };
  return period.count * unitMs[period.unit] <= longestDays * dayMs ? period : null;
}

/**
 * Start of the period that contains this instant, in local time as cron counts: an hour starts at its first minute, a
 * day at midnight, a week on Sunday. Null if the name has no period.
 */
export function periodStart(tierName: string, instantMs: number): number | null {
  const period = parseTierPeriod(tierName);
  if (!period) return null;
  const { count, unit } = period;
  const date = new Date(instantMs);
  if (unit === 'years') return localMidnight(date.getFullYear(), 0, 1);
  if (unit === 'months') return localMidnight(date.getFullYear(), date.getMonth(), 1);
  if (unit === 'weeks') return midnightDaysBefore(date, date.getDay());
  if (unit === 'days') return midnightDaysBefore(date, daysIntoPeriod(date, count));
  return startWithinDays(instantMs, count * unitMs[unit]);
}

/**
 * Start of the period after the one that contains this instant; null if the name has no period. It is searched for, not
 * added up: months differ in length, and so do days on which the clock changes.
 */
export function nextPeriodStart(tierName: string, instantMs: number): number | null {
  const periodMs = tierPeriodMs(tierName);
  if (periodMs === null) return null;
  const start = periodStart(tierName, instantMs);
  const hasBegun = (atMs: number): boolean => periodStart(tierName, atMs) !== start;
  return findFirstMinute(instantMs, instantMs + periodMs + longestExcessMs, hasBegun);
}

/** If a day has two midnights, `new Date` takes the first one; if it has none, the day's first moment. */
function localMidnight(year: number, month: number, day: number): number {
  return new Date(year, month, day).getTime();
}

function midnightDaysBefore(date: Date, days: number): number {
  return localMidnight(date.getFullYear(), date.getMonth(), date.getDate() - days);
}

/** Counts days from 1970 by local dates, as the crontab line of such a tier does. */
function daysIntoPeriod(date: Date, count: number): number {
  return (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / dayMs) % count;
}

/** Counts from 1970 in local time. If the period divides a day, this equals counting from midnight. */
function startWithinDays(instantMs: number, periodMs: number): number {
  const wallMs = instantMs + utcOffsetMs(instantMs);
  const start = instantOfWall(wallMs - (wallMs % periodMs), instantMs);
  if (utcOffsetMs(start) === utcOffsetMs(instantMs)) return start;
  // The clock was set back in between. If it went back before the start of a later period, that period is over.
  const change = findChange(start, instantMs);
  return startWithinDays(change - 1, periodMs) > start ? change : start;
}

/**
 * The latest instant up to `instantMs` at which the local clock showed this time. The clock may have changed in
 * between; if it skipped the time, this is the instant of the change.
 */
function instantOfWall(wallMs: number, instantMs: number): number {
  const start = wallMs - utcOffsetMs(instantMs);
  if (utcOffsetMs(start) === utcOffsetMs(instantMs)) return start;
  const startBeforeChange = wallMs - utcOffsetMs(start);
  const wasShown = utcOffsetMs(startBeforeChange) === utcOffsetMs(start);
  return wasShown ? startBeforeChange : findChange(start, instantMs);
}

/** The first minute that has the offset of `laterMs`; clocks change at whole minutes. */
function findChange(earlierMs: number, laterMs: number): number {
  const isChanged = (atMs: number): boolean => utcOffsetMs(atMs) === utcOffsetMs(laterMs);
  return findFirstMinute(earlierMs, laterMs, isChanged);
}

/** The first whole minute between two instants for which `has` is true; it is true for the later instant only. */
function findFirstMinute(earlierMs: number, laterMs: number, has: (atMs: number) => boolean): number {
  let before = Math.floor(earlierMs / minuteMs);
  let after = Math.floor(laterMs / minuteMs);
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (has(middle * minuteMs)) after = middle;
    else before = middle;
  }
  return after * minuteMs;
}

function utcOffsetMs(instantMs: number): number {
  return -new Date(instantMs).getTimezoneOffset() * minuteMs;
}

const ONE_HOUR_MS = 3_600_000;

/** The tier's period, at most one hour: a pass should end before the next one is due. */
export function defaultTimeoutMs(tier: string): number {
  // Cron ends nothing, and a command that it has run for hours must go on to do so.
  if (tier === EXEC || isExecName(tier)) return longestTimerMs;
  return Math.min(tierPeriodMs(tier) ?? ONE_HOUR_MS, ONE_HOUR_MS);
}

/**
 * A period that starts this far into a slot, as a part of it, belongs to the next slot. Half would not do: a clock that
 * is wrong by a round number of minutes would be now on this side of it, now on the other.
 */
const ROUNDED_UP_FROM = 0.55;

/**
 * The slot of a pass, by which several machines recognize the same pass: the start of the fleet's period that is
 * nearest to the start of this machine's own period. A call just before or after a boundary neither skips a slot nor
 * gets one twice, however wrong the machine's clock is. Null if the tier's name has no period.
 *
 * @param ownMs the time on this machine's clock
 * @param aheadMs by how many milliseconds the fleet's clock is ahead of this machine's
 */
export function slotOf(tier: string, ownMs: number, aheadMs: number): number | null {
  const start = periodStart(tier, ownMs);
  if (start === null || aheadMs === 0) return start;
  const at = start + aheadMs;
  const before = periodStart(tier, at) as number;
  const after = nextPeriodStart(tier, at) as number;
  return at - before < ROUNDED_UP_FROM * (after - before) ? before : after;
}

/** Common words for a period, and the tier's name for it. */
const words: Readonly<Record<string, string>> = {
  minute: '1min',
  minutely: '1min',
  halfhour: '30min',
  halfhourly: '30min',
  quarterhour: '15min',
  quarterhourly: '15min',
  twicehourly: '30min',
  hour: 'hourly',
  day: 'daily',
  night: 'daily',
  nightly: 'daily',
  midnight: 'daily',
  twicedaily: '12hours',
  week: 'weekly',
  fortnight: '14days',
  fortnightly: '14days',
  biweekly: '14days',
  month: 'monthly',
  bimonthly: '60days',
  quarter: '90days',
  quarterly: '90days',
  year: 'yearly',
  annual: 'yearly',
  annually: 'yearly',
};

/** A number and a unit as people write them: `5m`, `2hour`, `min15`, `3-days`. */
const units: readonly (readonly [RegExp, (count: number) => string])[] = [
  [/^(?:m|min|mins|minute|minutes)?$/, (count) => `${count}min`],
  [/^(?:h|hr|hrs|hour|hours|hourly)$/, (count) => (count === 1 ? 'hourly' : `${count}hours`)],
  [/^(?:d|day|days|daily)$/, (count) => (count === 1 ? 'daily' : `${count}days`)],
  [/^(?:w|wk|week|weeks|weekly)$/, (count) => (count === 1 ? 'weekly' : `${7 * count}days`)],
  [/^(?:mo|month|months|monthly)$/, (count) => (count === 1 ? 'monthly' : `${30 * count}days`)],
  [/^(?:y|year|years|yearly)$/, (count) => (count === 1 ? 'yearly' : '')],
];

/**
 * The tier that the name of a folder was probably meant to be: `hourly` for `houry`, `15min` for `15mins`. Null if the
 * name is a tier already, or resembles none: such a folder is run by hand.
 */
export function guessPeriodName(name: string): string | null {
  if (tierPeriodMs(name) !== null) return null;
  const plain = name
    .toLowerCase()
    .replace(/^(?:cron\.|@)|\.d$/g, '')
    .replace(/[\s_.-]+/g, '')
    .replace(/^(?:every|each|once|per)(?:an|a)?(?=[\da-z])/, '');
  const guess = words[plain.replace(/s$/, '')] ?? words[plain] ?? guessCounted(plain) ?? guessSpelling(plain);
  return guess !== null && tierPeriodMs(guess) !== null ? guess : null;
}

function guessCounted(plain: string): string | null {
  const [, before = '', digits, after = ''] =
    /^((?:min|hour|day|week|month)[a-z]*(?<!ly))?(\d{1,6})([a-z]*)$/.exec(plain) ?? [];
  if (digits === undefined || (before !== '' && after !== '')) return null;
  // A larger number without a unit does not mean minutes; it may be a year.
  if (before + after === '' && Number(digits) > 90) return null;
  const unit = units.find(([form]) => form.test(before + after));
  return unit?.[1](Number(digits)) ?? null;
}

/** Accepts a misspelling, which begins with the same letter, not another word. */
function guessSpelling(plain: string): string | null {
  const alike = [...named.keys()].filter((each) => each[0] === plain[0] && plain.length >= each.length - 2);
  return nearestName(plain, alike);
}

/** Explains why cron never runs such a folder and which tier was probably meant; null: nothing to explain. */
export function describeMisnamed(name: string): string | null {
  const guess = guessPeriodName(name);
  return guess === null ? null : `not a schedule name, so cron never runs it; did you mean ${guess}?`;
}
