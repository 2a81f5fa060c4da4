import { ruleZone } from '../../system/base/zone.ts';
import { guessTime, quote, type RuleFault, readClockTime } from './grammar/fault.ts';
import type { DayWindow } from './rule.ts';
import { firstOpen, openZone } from './stretches.ts';

/** Reads `22:00 and 05:00`, as it follows `between`; a correction is one of the same kind. */
export function parseWindow(text: string): DayWindow | RuleFault {
  const [, first = '', last = ''] = /^(.+?)(?: and | to | ?[-–—] ?)(.+)$/i.exec(text.trim()) ?? [];
  const words = [first, last].map((word) => word.toLowerCase());
  const [from, to] = words.map(readClockTime);
  if (from === to && from != null) return { fault: `between needs two different times, found ${quote(text)}` };
  if (from != null && to != null && / and /i.test(text)) return { from, to };
  const fault = `between needs two times such as between 22:00 and 05:00, found ${quote(text)}`;
  const [meantFrom, meantTo] = words.map((word) => guessTime(word.replace(/^24(?=\D|$)/, '00')));
  return meantFrom == null || meantTo == null || meantFrom === meantTo
    ? { fault }
    : { fault, meant: `${meantFrom} and ${meantTo}` };
}

/**
 * The first moment from `atMs` on at which the clocks of a zone show a time in the window: `atMs` itself if they do so
 * then. A window that begins while the clocks skip an hour opens when they go on.
 *
 * @param zone null: the zone of rules that name none
 */
export async function nextOpening(window: DayWindow, atMs: number, zone: string | null): Promise<number> {
  return firstOpen(window, await openZone(zone ?? ruleZone()), atMs);
}
