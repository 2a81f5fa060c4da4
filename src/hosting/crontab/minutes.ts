import { createHash } from 'node:crypto';
import { type CronPeriod, parseCronPeriod } from './period.ts';

/** A call whose line needs a minute. */
export interface TimedCall {
  readonly name: string;
  readonly period: CronPeriod;
}

/** When everybody else's jobs on the machine start. */
const CROWDED_MINUTES = [0, 15, 30, 45];

/** Minutes between two starts that are far enough: a short pass is over by then. */
const ENOUGH_MINUTES = 3;

/** They have minutes of their own in each root, whether they are there or not. */
const RESERVED_TIERS = ['15min', 'hourly', 'daily', 'weekly', 'monthly', 'yearly'];

/**
 * The minute of each call, different from root to root. That of a usual tier follows from the root and its name
 * alone, so that it stays when other tiers come and go; the others keep out of the way of these, of each other and
 * of lines that are installed, as far as there are free minutes.
 *
 * @param kept what installed lines have: that stays
 */
export function chooseMinutes(
  root: string,
  calls: readonly TimedCall[],
  kept: ReadonlyMap<string, number> = new Map(),
): number[] {
  const installed = new Set(calls.flatMap(({ name, period }) => minutesOf(period, kept.get(name))));
  const reserved = reserveMinutes(root);
  const taken = new Set([...CROWDED_MINUTES, ...reserved.taken, ...installed]);
  return calls.map(({ name, period }) => {
    const own = kept.get(name) ?? reserved.minutes.get(name);
    const isFree = kept.has(name) || !minutesOf(period, own).some((minute) => installed.has(minute));
    if (own !== undefined && isFree) return own;
    const minute = freestMinute(period, taken, seededNumber(`${root}\0${name}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    return minute;
  });
}

function reserveMinutes(root: string) {
  const taken = new Set(CROWDED_MINUTES);
  const minutes = new Map<string, number>();
  for (const name of RESERVED_TIERS) {
    const period = parseCronPeriod(name) as CronPeriod;
    const minute = freestMinute(period, taken, seededNumber(`${root}\0${name}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    minutes.set(name, minute);
  }
  return { taken, minutes };
}

/** A number that is always the same for one text and different for most others. */
export function seededNumber(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}

function freestMinute(period: CronPeriod, taken: ReadonlySet<number>, start: number): number {
  const count = countOfMinutes(period);
  const candidates = Array.from({ length: count }, (_, index) => (start + index) % count);
  const gaps = candidates.map((minute) => gapTo(taken, minutesOf(period, minute)));
  return candidates[gaps.indexOf(Math.max(...gaps))] ?? 0;
}

/** Of a sieved hour the first half: the script counts hours, also when cron is late by some minutes. */
function countOfMinutes({ unit, step, nth }: CronPeriod): number {
  if (unit === 'minute') return step;
  return unit === 'hour' && nth > 1 ? 30 : 60;
}

/** The minutes of an hour in which such a line fires; none of one that nobody can keep clear of. */
function minutesOf({ unit, step }: CronPeriod, minute: number | undefined): number[] {
  if (minute === undefined || (unit === 'minute' && step === 1)) return [];
  if (unit !== 'minute') return [minute];
  return Array.from({ length: 60 / step }, (_, index) => minute + index * step);
}

function gapTo(taken: ReadonlySet<number>, minutes: readonly number[]): number {
  const distances = minutes.flatMap((minute) => [...taken].map((other) => distance(minute, other)));
  return Math.min(ENOUGH_MINUTES, ...distances);
}

function distance(a: number, b: number): number {
  const apart = Math.abs(a - b);
  return Math.min(apart, 60 - apart);
}
