import { isInstant } from '../config/instant.ts';
import { hostZone } from '../queue/repeat/time-zone.ts';
import { UNKNOWN } from './unknown.ts';

/** Shows instants in one time zone, and what is none as unknown. The store knows only UTC. */
export interface Clock {
  /** `Europe/Berlin`. */
  readonly zone: string;
  /** `2026-11-03 14:05:09`. */
  dateTime(atMs: number): string;
  /** `11-03 14:05`; another year than the current one is named: `2025-11-03`. */
  short(atMs: number): string;
}

/** A clock of the host's own zone, unless another is named. */
export function createClock(nowMs: number, timeZone?: string): Clock {
  const format = new Intl.DateTimeFormat('en-GB', { ...fields, ...(timeZone && { timeZone }) });
  const parts = (atMs: number): Parts => readParts(format, atMs);
  const thisYear = parts(nowMs).year;
  return {
    zone: timeZone ?? hostZone(),
    dateTime: (atMs) => {
      if (!isInstant(atMs)) return UNKNOWN;
      const at = parts(atMs);
      return `${at.year}-${at.month}-${at.day} ${at.hour}:${at.minute}:${at.second}`;
    },
    short: (atMs) => {
      if (!isInstant(atMs)) return UNKNOWN;
      const at = parts(atMs);
      if (at.year !== thisYear) return `${at.year}-${at.month}-${at.day}`;
      return `${at.month}-${at.day} ${at.hour}:${at.minute}`;
    },
  };
}

const fields = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
} as const;

type Parts = Readonly<Record<Intl.DateTimeFormatPartTypes, string>>;

function readParts(format: Intl.DateTimeFormat, atMs: number): Parts {
  const parts = format.formatToParts(atMs).map((part) => [part.type, part.value]);
  return Object.fromEntries(parts) as Parts;
}
