import { createHash } from 'node:crypto';
import type { CronPeriod } from './cron-period.ts';

/** When everybody else's jobs on the machine start. */
const CROWDED_MINUTES = [0, 15, 30, 45];

/** Minutes between two starts that are far enough: a short pass is over by then. */
const ENOUGH_MINUTES = 3;

/**
 * The minute for each tier, given from the most to the least frequent: never one that another tier
 * has while there is a free one, and different from root to root.
 */
export function spreadMinutes(seed: string, periods: readonly CronPeriod[]): number[] {
  const taken = new Set(CROWDED_MINUTES);
  return periods.map((period, index) => {
    const minute = freestMinute(period, taken, seededNumber(`${seed}\0${index}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    return minute;
  });
}

/** A number that is always the same for one text and different for most others. */
export function seededNumber(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}

function freestMinute(period: CronPeriod, taken: ReadonlySet<number>, start: number): number {
  const count = period.unit === 'minute' ? period.step : 60;
  const candidates = Array.from({ length: count }, (_, index) => (start + index) % count);
  const gaps = candidates.map((minute) => gapTo(taken, minutesOf(period, minute)));
  return candidates[gaps.indexOf(Math.max(...gaps))] ?? 0;
}

function minutesOf(period: CronPeriod, minute: number): number[] {
  if (period.unit !== 'minute') return [minute];
  return Array.from({ length: 60 / period.step }, (_, index) => minute + index * period.step);
}

function gapTo(taken: ReadonlySet<number>, minutes: readonly number[]): number {
  const distances = minutes.flatMap((minute) => [...taken].map((other) => distance(minute, other)));
  return Math.min(ENOUGH_MINUTES, ...distances);
}

function distance(a: number, b: number): number {
  const apart = Math.abs(a - b);
  return Math.min(apart, 60 - apart);
}
