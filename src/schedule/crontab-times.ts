import {
  type ExpectedCall,
  expectCall,
  expectCallAfter,
  findMissedPasses,
  type MissedPasses,
  type PassHistory,
  type PreviousCall,
} from './expected-call.ts';
import { nextPeriodStart, tierPeriodMs } from './period.ts';

/** The lines of the user's crontab that call tiers of this root. */
export interface CrontabTimes {
  /** When `runner cron` last changed the lines; null: not known. */
  readonly changedAtMs: number | null;
  /** The time zone of cron's own clock; null: the zone of this process. */
  readonly zone: string | null;
  readonly lines: readonly CrontabLine[];
}

/** Reads the crontab when first needed, and only once; null: it cannot be read. */
export type ReadCrontab = () => Promise<CrontabTimes | null>;

/** A line that calls this root. */
export interface CrontabLine {
  /** The tier that it calls, or `due`. */
  readonly calls: string;
  /** `57 * * * *`, `@daily`. */
  readonly times: string;
  /** The `CRON_TZ` that is set above the line; null: none. */
  readonly zone: string | null;
  /** Which of its firings the line lets through; null: all. */
  readonly sieve: Sieve | null;
}

/** Lets a firing through if `(seconds since 1970 + shift) / step % nth` is 0, in the shell's integer arithmetic. */
export interface Sieve {
  readonly shift: number;
  readonly step: number;
  readonly nth: number;
}

interface ExpectedCalls {
  readonly expected: ExpectedCall | null;
  /** The first expected call at or after a future time; null: none is expected. */
  callAfter(timeMs: number): number | null;
  /** The first expected pass after a future time: of `runner due`, only the first call in a period makes one. */
  passAfter(timeMs: number): number | null;
}

/** The calls of a tier to expect. */
export interface CrontabView extends ExpectedCalls {
  /** Whether a crontab line calls the tier; null: the crontab cannot be read. */
  readonly isInCrontab: boolean | null;
  /** The tier has a period, but no crontab line, and nothing else calls it either. */
  readonly isUncalled: boolean;
}

/** The next call of a tier: from the times of its crontab line if they are known, otherwise from its last call. */
export async function expectByCrontab(
  tier: string,
  last: PreviousCall | null,
  crontab: CrontabTimes | null,
  nowMs: number,
): Promise<CrontabView> {
  const byLast = (): ExpectedCalls => {
    const expected = expectCall(tier, last, nowMs);
    return {
      expected,
      callAfter: (timeMs) => expectCallAfter(tier, expected, last?.isDue ?? false, timeMs),
      passAfter: (timeMs) => expectCallAfter(tier, expected, false, timeMs + 1),
    };
  };
  if (crontab === null) return { isInCrontab: null, isUncalled: false, ...byLast() };
  const lines = linesOf(crontab, tier);
  if (lines.length === 0) {
    // No line calls the tier, but another scheduler may. One call is no proof: it may have been by hand, without a
    // terminal. A call before the last change of the lines is no proof either: its line may be gone.
    const isOver = last !== null && crontab.changedAtMs !== null && last.atMs < crontab.changedAtMs;
    const isByOthers = last?.isRegular === true && !isOver;
    const view = isByOthers ? byLast() : nothingExpected;
    const isUncalled = tierPeriodMs(tier) !== null && view.expected?.isOverdue !== false;
    return { isInCrontab: false, isUncalled, ...view };
  }
  const clocks = await readClocks(lines, crontab.zone);
  const view = clocks === null ? byLast() : expectFiring(tier, last, { clocks, crontab, nowMs });
  return { isInCrontab: true, isUncalled: false, ...view };
}

/** Largest deviation of the distance between two calls from the tier's period, in periods. */
const REGULAR = 0.1;

/** Whether the second call follows the first one after about one period, as calls by a scheduler do. */
export function isRegularCall(tier: string, atMs: number, beforeMs: number): boolean {
  const periodMs = tierPeriodMs(tier);
  return periodMs !== null && Math.abs(atMs - beforeMs - periodMs) <= REGULAR * periodMs;
}

function linesOf({ lines }: CrontabTimes, tier: string): CrontabLine[] {
  return lines.filter(({ calls }) => calls === tier || (calls === 'due' && tierPeriodMs(tier) !== null));
}

const nothingExpected: ExpectedCalls = { expected: null, callAfter: () => null, passAfter: () => null };

interface Ahead {
  readonly clocks: readonly Clock[];
  readonly crontab: CrontabTimes;
  readonly nowMs: number;
}

function expectFiring(tier: string, last: PreviousCall | null, { clocks, crontab, nowMs }: Ahead): ExpectedCalls {
  // Before the last change the lines may have been different. If the clock was set back, `known` may lie in the future:
  // expect calls from now on.
  const known = Math.max(last?.atMs ?? 0, crontab.changedAtMs ?? 0);
  const fromMs = known === 0 ? nowMs : Math.min(known, nowMs);
  const first = firstCall(clocks, tier, last, { fromMs, nowMs });
  if (first === null) return nothingExpected;
  const { atMs, clock } = first;
  const latestMs = Math.max(atMs, clock.nextByMachine(fromMs) ?? atMs);
  return {
    expected: { atMs, isOverdue: nowMs > latestMs + toleranceOf(clock, atMs) },
    callAfter: (timeMs) => firstFiring(clocks, timeMs),
    passAfter: (timeMs) => {
      const passThen = { atMs: timeMs, isDue: false };
      return firstCall(clocks, tier, passThen, { fromMs: timeMs, nowMs: timeMs })?.atMs ?? null;
    },
  };
}

interface Since {
  /** Firings up to this time are known to have come. */
  readonly fromMs: number;
  readonly nowMs: number;
}

/** The first firing at or after a time. */
function firstFiring(clocks: readonly Clock[], timeMs: number): number | null {
  const firings = clocks.flatMap((clock) => clock.next(timeMs - 1) ?? []);
  return firings.length === 0 ? null : Math.min(...firings);
}

/** The first firing that makes a pass after the last one, and its clock; null: none. */
function firstCall(clocks: readonly Clock[], tier: string, last: PreviousCall | null, since: Since) {
  const firings = clocks.flatMap((clock) => firingOf(clock, tier, last, since) ?? []);
  return firings.toSorted((one, other) => one.atMs - other.atMs)[0] ?? null;
}

/** `runner due` runs a tier at its first call in a period. A tier that was never called begins with its next period. */
function firingOf(clock: Clock, tier: string, last: PreviousCall | null, { fromMs, nowMs }: Since) {
  const period = clock.isDue ? nextPeriodStart(tier, last === null ? nowMs : Math.min(last.atMs, fromMs)) : null;
  const atMs = clock.next(period === null ? fromMs : Math.max(fromMs, period - 1));
  return atMs === null ? null : { atMs, clock };
}

const LONGEST_TOLERANCE_MS = 3_600_000;

/** How late a call may be, in milliseconds: hosts shift cron's minutes, but not by hours. */
function toleranceOf(clock: Clock, atMs: number): number {
  const following = clock.next(atMs);
  return following === null ? LONGEST_TOLERANCE_MS : Math.min((following - atMs) / 2, LONGEST_TOLERANCE_MS);
}

/** The expected passes that did not happen, by the times of the tier's crontab line if they are known. */
export async function findMissedByCrontab(
  tier: string,
  history: PassHistory,
  read: ReadCrontab,
): Promise<MissedPasses | null> {
  const byPeriod = findMissedPasses(history);
  if (byPeriod === null || byPeriod.count === 0) return byPeriod;
  const crontab = await read();
  const lines = crontab === null ? [] : linesOf(crontab, tier).filter(({ calls }) => calls === tier);
  if (crontab === null || lines.length === 0) return byPeriod;
  const clocks = await readClocks(lines, crontab.zone);
  if (clocks === null) return byPeriod;
  const changedMs = crontab.changedAtMs ?? 0;
  const gaps = byPeriod.gaps.flatMap((gap) => {
    const endMs = gap.toMs ?? history.untilMs;
    if (endMs <= changedMs) return [gap];
    const fromMs = Math.max(gap.fromMs, history.sinceMs - 1, changedMs);
    const count = clocks.reduce((sum, clock) => sum + countFirings(clock, fromMs, endMs), 0);
    return count === 0 ? [] : [{ ...gap, count }];
  });
  return { count: gaps.reduce((sum, { count }) => sum + count, 0), gaps };
}

/** Highest count of missed firings: a month of a line that fires each minute. A higher count tells nobody more. */
const MOST_FIRINGS = 45_000;

/** Counts the firings that came too early for the call at the end to be theirs. */
function countFirings(clock: Clock, fromMs: number, endMs: number): number {
  let count = 0;
  let atMs = clock.next(fromMs);
  while (atMs !== null && count < MOST_FIRINGS && atMs + toleranceOf(clock, atMs) < endMs) {
    count += 1;
    atMs = clock.next(atMs);
  }
  return count;
}

/** A call of a tier whose lateness is asked for. */
export interface TierCall {
  /** Whether `runner due` made the call. */
  readonly isDue: boolean;
  readonly calledAtMs: number;
  /** Start of the period that the call stands for; null: the tier has no period. */
  readonly slotMs: number | null;
}

/** When the crontab line that made this call was due; null: unknown. */
export async function dueByCrontab(tier: string, call: TierCall, crontab: CrontabTimes | null): Promise<number | null> {
  if (crontab === null) return null;
  const lines = linesOf(crontab, tier).filter(({ calls }) => (calls === 'due') === call.isDue);
  const clocks = await readClocks(lines, crontab.zone);
  if (clocks === null) return null;
  const firings = clocks.flatMap(({ next, nextByMachine }) =>
    [next, nextByMachine].map((each) => firingFor(each, tier, call)),
  );
  const dueMs = firings.reduce((one, other) => (other === null || (one !== null && one > other) ? one : other), null);
  // Before their last change the lines were different.
  const isOfOtherLines = dueMs !== null && crontab.changedAtMs !== null && dueMs < crontab.changedAtMs;
  return isOfOtherLines && (crontab.changedAtMs ?? 0) <= call.calledAtMs ? null : dueMs;
}

/** `runner due` runs a tier at its first call in a period; a line of the tier's own runs it at each call. */
function firingFor(next: NextFiring, tier: string, { isDue, calledAtMs, slotMs }: TierCall): number | null {
  if (isDue) {
    const atMs = slotMs === null ? null : next(slotMs - 1);
    return atMs !== null && atMs <= calledAtMs ? atMs : null;
  }
  // A call that stands for an earlier period was due in that period.
  const endMs = slotMs === null ? null : nextPeriodStart(tier, slotMs);
  return lastFiring(next, endMs === null ? calledAtMs : Math.min(calledAtMs, endMs - 1));
}

/** How far back the search goes, in hours, one step after the other: a line that fires often is found at once. */
const LOOKED_BACK = [1, 24, 8 * 24, 32 * 24, 367 * 24, 1500 * 24];

/** The last firing at or before a time; null: none within the longest search. */
function lastFiring(next: NextFiring, upToMs: number): number | null {
  for (const hours of LOOKED_BACK) {
    let lastMs: number | null = null;
    let atMs = next(upToMs - hours * 3_600_000);
    while (atMs !== null && atMs <= upToMs) {
      lastMs = atMs;
      atMs = next(atMs);
    }
    if (lastMs !== null) return lastMs;
  }
  return null;
}

type NextFiring = (afterMs: number) => number | null;

/** When a line fires. */
interface Clock {
  readonly isDue: boolean;
  /** The first time after that instant; null: never. */
  readonly next: NextFiring;
  /** Like `next`, but in the machine's zone: many crons ignore `CRON_TZ`. */
  readonly nextByMachine: NextFiring;
}

/** The clocks of these lines; null if the times of one line are unknown. */
async function readClocks(lines: readonly CrontabLine[], zone: string | null): Promise<readonly Clock[] | null> {
  const clocks: Clock[] = [];
  for (const line of lines) {
    const nextByMachine = await readFirings(line, zone);
    const next = line.zone === null ? nextByMachine : await readFirings(line, line.zone);
    if (next === null || nextByMachine === null) return null;
    clocks.push({ isDue: line.calls === 'due', next, nextByMachine });
  }
  return clocks;
}

/** Null for times that only this host's cron understands, such as `5~30 * * * *`. */
async function readFirings({ times, sieve }: CrontabLine, zone: string | null): Promise<NextFiring | null> {
  const { parseSchedule } = await import('./repeat/grammar/parse.ts');
  const { openTimes } = await import('./repeat/calendar.ts');
  const parsed = parseSchedule(times, zone);
  if ('problem' in parsed) return null;
  const next = await openTimes(parsed.rule);
  return sieve === null ? next : sieved(next, sieve);
}

/** Most firings to try: every sieve lets through at least one firing of this many. */
const MOST_SIEVED = 10_000;

function sieved(next: NextFiring, { shift, step, nth }: Sieve): NextFiring {
  return (afterMs) => {
    let atMs = next(afterMs);
    for (let tries = 0; atMs !== null && tries < MOST_SIEVED; tries += 1) {
      if (Math.trunc((atMs / 1000 + shift) / step) % nth === 0) return atMs;
      atMs = next(atMs);
    }
    return null;
  };
}
