import type { Temporal as TemporalTypes } from 'temporal-polyfill';
import { MINUTE_MS } from '../../system/base/values.ts';
import type { DayWindow } from './rule.ts';

/** The time between two clock changes of a zone. */
export interface Stretch {
  readonly fromMs: number;
  readonly untilMs: number;
  /** By how much local time is ahead of UTC. */
  readonly offsetMs: number;
}

/** The stretch to which a moment belongs. */
export type StretchAt = (atMs: number) => Stretch;

/** The clock changes of each zone, kept because a search for one is slow. */
const zones = new Map<string, StretchAt>();

export async function openZone(name: string): Promise<StretchAt> {
  // Loading takes 18 ms, so only rules that need it load it.
  const { Temporal } = await import('temporal-polyfill');
  const stretchAt = zones.get(name) ?? readZone(Temporal, name);
  zones.set(name, stretchAt);
  return stretchAt;
}

function readZone(Temporal: typeof TemporalTypes, zone: string): StretchAt {
  const known: Stretch[] = [];
  const read = (atMs: number): Stretch => {
    const local = Temporal.Instant.fromEpochMilliseconds(Math.floor(atMs)).toZonedDateTimeISO(zone);
    const from = local.add({ milliseconds: 1 }).getTimeZoneTransition('previous');
    const until = local.getTimeZoneTransition('next');
    return {
      fromMs: from?.epochMilliseconds ?? Number.NEGATIVE_INFINITY,
      untilMs: until?.epochMilliseconds ?? Number.POSITIVE_INFINITY,
      offsetMs: local.offsetNanoseconds / 1e6,
    };
  };
  return (atMs) => {
    const found = known.findLast(({ fromMs, untilMs }) => fromMs <= atMs && atMs < untilMs) ?? read(atMs);
    if (found !== known.at(-1)) known.push(found);
    return found;
  };
}

const DAY_MINUTES = 1440;

/**
 * The first moment from `atMs` on at which the clocks show a time in the window: `atMs` itself if they do so then. A
 * window that begins while the clocks skip an hour opens when they go on.
 */
export function firstOpen({ from, to }: DayWindow, stretchAt: StretchAt, atMs: number): number {
  const lengthMs = ((to - from + DAY_MINUTES) % DAY_MINUTES) * MINUTE_MS;
  for (let at = atMs; ; ) {
    const { untilMs, offsetMs } = stretchAt(at);
    const sinceMs = floorModulo(at + offsetMs - from * MINUTE_MS, DAY_MINUTES * MINUTE_MS);
    const opensAt = sinceMs < lengthMs ? at : at + DAY_MINUTES * MINUTE_MS - sinceMs;
    if (opensAt < untilMs) return opensAt;
    at = untilMs;
  }
}

function floorModulo(value: number, modulus: number): number {
  return ((value % modulus) + modulus) % modulus;
}
