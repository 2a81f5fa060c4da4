import { MINUTE_MS } from '../../system/base/values.ts';
import { ruleZone } from '../../system/base/zone.ts';
import { guessTime, quote, type RuleFault, readClockTime } from './fault.ts';
import { openZone, type StretchAt } from './stretches.ts';

/** A part of each day, in minutes of the day. It goes over midnight if it ends before it begins. */
export interface TimeWindow {
  readonly from: number;
  /** The first minute that is outside. */
  readonly to: number;
}

/** Reads `22:00 and 05:00`, as it follows `between`; a correction is one of the same kind. */
export function parseWindow(text: string): TimeWindow | RuleFault {
  const [, first = '', last = ''] = /^(.+?)(?: and | to | ?[-–—] ?)(.+)$/i.exec(text.trim()) ?? [];
  const words = [first, last].map((word) => word.toLowerCase());
  const [from, to] = words.map(readClockTime);
  if (from === to && from != null) return { fault: `between needs two different times, found ${quote(text)}` };
  if (from != null && to != null && / and /i.test(text)) return { from, to };
  const fault = `between needs two times such as between 22:00 and 05:00, found ${quote(text)}`;
  const [meantFrom, meantTo] = words.map(guessTime);
  return meantFrom == null || meantTo == null ? { fault } : { fault, meant: `${meantFrom} and ${meantTo}` };
}

/**
 * The first moment from `atMs` on at which the clocks of a zone show a time in the window: `atMs` itself if they do so
 * then. A window that begins while the clocks skip an hour opens when they go on.
 *
 * @param zone null: the zone of rules that name none
 */
export async function nextOpening(window: TimeWindow, atMs: number, zone: string | null): Promise<number> {
  return firstOpen(window, await openZone(zone ?? ruleZone()), atMs);
}

const DAY_MINUTES = 1440;

/** Like `nextOpening`, for a zone that is open. */
export function firstOpen({ from, to }: TimeWindow, stretchAt: StretchAt, atMs: number): number {
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
