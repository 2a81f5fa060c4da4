import { applyModifiers, fixedUnitMs, SECOND_MS, WEEK_MS } from './apply-modifiers.ts';
import type { Modifier } from './repeat-rule.ts';
import type { TimeSeries } from './time-series.ts';

/** More steps than these are never made, whatever a rule says: a few milliseconds. */
const MOST_STEPS = 10_000;

/**
 * The times that modifiers give from a first one on, each computed from the one before. Years of
 * missed minutes are not walked through: once the times repeat in a fixed distance, it is arithmetic.
 * A rule that never does (months in it) and has more times than can be walked through goes on from now.
 */
export function momentSeries(
  firstMs: number,
  modifiers: readonly Modifier[],
  nowMs: number,
): TimeSeries {
  const { times, cycle, isEnded } = walk(firstMs, modifiers, nowMs);
  if (cycle !== null) return cyclicSeries(times, cycle, nowMs);
  if (isEnded) return listSeries(times, nowMs);
  const fresh = applyModifiers(nowMs, modifiers);
  const future = fresh !== null && fresh > nowMs ? fresh : null;
  return { passed: times.length, timeAt: () => future };
}

/** From the time at `start` on, each `steps` times the same distances follow. */
interface Cycle {
  readonly start: number;
  readonly steps: number;
  readonly lengthMs: number;
}

interface Walk {
  readonly times: readonly number[];
  readonly cycle: Cycle | null;
  /** It has come to a time that has not passed, or to one from which the rule does not get further. */
  readonly isEnded: boolean;
}

function walk(firstMs: number, modifiers: readonly Modifier[], nowMs: number): Walk {
  const alikeMs = alikeAfterMs(modifiers);
  const times = [firstMs];
  const seen = new Map<number, number>();
  for (let at = firstMs; at <= nowMs; ) {
    const place = alikeMs === null ? null : at % alikeMs;
    const start = place === null ? undefined : seen.get(place);
    if (start !== undefined) return { times, cycle: cycleFrom(times, start), isEnded: true };
    if (place !== null) seen.set(place, times.length - 1);
    if (times.length >= MOST_STEPS) return { times, cycle: null, isEnded: false };
    const next = applyModifiers(at, modifiers);
    if (next === null || next <= at) break;
    times.push(next);
    at = next;
  }
  return { times, cycle: null, isEnded: true };
}

function cycleFrom(times: readonly number[], start: number): Cycle {
  const end = times.length - 1;
  return { start, steps: end - start, lengthMs: (times[end] ?? 0) - (times[start] ?? 0) };
}

/**
 * Moved by this much, a moment is moved by as much by the modifiers, too; null where that is so by
 * nothing shorter than 400 years.
 */
function alikeAfterMs(modifiers: readonly Modifier[]): number | null {
  const steps = modifiers.map((modifier) => {
    if (modifier.kind === 'weekday') return WEEK_MS;
    const { unit } = modifier;
    if (unit === 'month' || unit === 'year') return Number.POSITIVE_INFINITY;
    return modifier.kind === 'add' ? SECOND_MS : fixedUnitMs[unit];
  });
  const longest = Math.max(...steps);
  return longest === Number.POSITIVE_INFINITY ? null : longest;
}

function listSeries(times: readonly number[], nowMs: number): TimeSeries {
  return {
    passed: times.filter((time) => time <= nowMs).length,
    timeAt: (index) => times[index] ?? null,
  };
}

function cyclicSeries(times: readonly number[], cycle: Cycle, nowMs: number): TimeSeries {
  const { start, steps, lengthMs } = cycle;
  const timeAt = (index: number): number => {
    if (index < start) return times[index] ?? 0;
    const turns = Math.floor((index - start) / steps);
    return (times[index - turns * steps] ?? 0) + turns * lengthMs;
  };
  const turns = Math.floor((nowMs - timeAt(start)) / lengthMs);
  let passed = start + turns * steps;
  while (timeAt(passed) <= nowMs) passed += 1;
  return { passed, timeAt };
}
