import { median } from 'simple-statistics';
import type { Deviation, MeasuredRun, Store } from '../../store/contract.ts';

const DAY_MS = 86_400_000;

/** At each of so many instants, a week apart, the memory of a few runs is looked at. */
const WEEKS = 4;
const RUNS = 9;
const FEWEST_RUNS = 5;

/** From one week to the next, and in all. */
const LEAST_GROWTH = 1.03;
const LEAST_FACTOR = 1.3;
const LEAST_BYTES = 16 * 1024 * 1024;

/**
 * Whether a script's memory has grown from week to week, without any run that would be unlike the one before. Looked at
 * with its first run of each day (UTC).
 *
 * @param before the last successful runs before it, newest first
 */
export async function findCreep(
  usual: Pick<Store['usual'], 'successes'>,
  { script, startedAt, maxRssBytes }: MeasuredRun,
  before: readonly MeasuredRun[],
): Promise<Deviation[]> {
  const last = before[0]?.startedAt;
  const isFirstOfDay = last !== undefined && Math.floor(last / DAY_MS) < Math.floor(startedAt / DAY_MS);
  if (maxRssBytes === null || !isFirstOfDay) return [];
  let since = startedAt;
  let later = medianOf(before.slice(0, RUNS));
  const now = later;
  for (let week = 1; week < WEEKS; week += 1) {
    const runs = await usual.successes(script, startedAt - week * 7 * DAY_MS, RUNS);
    const earlier = medianOf(runs);
    if (earlier === null || later === null || later < earlier * LEAST_GROWTH) return [];
    // What did not run for weeks tells nothing of them.
    const newest = (runs[0] as MeasuredRun).startedAt;
    if (newest < startedAt - (week + 1) * 7 * DAY_MS) return [];
    since = newest;
    later = earlier;
  }
  if (now === null || later === null || now < later * LEAST_FACTOR || now - later < LEAST_BYTES) return [];
  return [{ measure: 'creep', name: '', value: now, usual: later, runs: RUNS * WEEKS, since }];
}

/** Null: too few are known. */
function medianOf(runs: readonly MeasuredRun[]): number | null {
  const known = runs.flatMap(({ maxRssBytes }) => maxRssBytes ?? []);
  return known.length < FEWEST_RUNS ? null : median(known);
}
