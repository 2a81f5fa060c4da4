import bytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';
import { isInstant } from '../../base/values.ts';
import { hostZoneName } from '../../repeat/time.ts';

/** What stands where a figure or an instant is unknown. */
export const UNKNOWN = '–';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Tiers have weeks and months, which are no units of a duration. */
const namedPeriods: ReadonlyMap<number, string> = new Map([
  [7 * DAY_MS, 'week'],
  [30 * DAY_MS, 'month'],
]);

/** `23ms`, `1.2s`, `3m 20s`, `2h 5m`. */
export function formatDuration(ms: number | null): string {
  if (ms === null) return UNKNOWN;
  if (ms > 0 && ms < 1) return '<1ms';
  if (ms < 1000) return prettyMilliseconds(Math.round(ms));
  const rounded = ms < MINUTE_MS ? ms : Math.round(ms / 1000) * 1000;
  return prettyMilliseconds(rounded, { unitCount: 2 });
}

/** `44.1MB`, in powers of 1024. */
export function formatBytes(count: number | null): string {
  return count === null ? UNKNOWN : (bytes.format(count, { decimalPlaces: 1 }) ?? UNKNOWN);
}

/** `99.8%`, rounded down: only what never failed is 100%. */
export function formatRate(rate: number | null): string {
  return rate === null ? UNKNOWN : `${Math.floor(rate * 1000) / 10}%`;
}

/** `12,345`. `toLocaleString` would load all of Intl, which a start feels. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 run`, `3 runs`, `2 passes`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** `every 15 minutes`, `every hour`, `every week`. */
export function formatPeriod(periodMs: number): string {
  const text =
    namedPeriods.get(periodMs) ?? prettyMilliseconds(periodMs, { verbose: true, unitCount: 2 });
  return `every ${text.replace(/^1 (?=\w+$)/, '')}`;
}

/** Shows instants in one time zone, and what is none as unknown. The store knows only UTC. */
export interface Clock {
  /** `Europe/Berlin`. */
  readonly zone: string;
  /** `2026-11-03 14:05:09`. */
  dateTime(atMs: number): string;
  /** `11-03 14:05`; another year than the current one is named: `2025-11-03`. */
  short(atMs: number): string;
}

/** A clock of the host's own zone, unless another is named: only that one needs Intl, which takes long to load. */
export function createClock(nowMs: number, timeZone?: string): Clock {
  const parts = timeZone === undefined ? readLocalParts : partsReaderOf(timeZone);
  const thisYear = parts(nowMs).year;
  return {
    zone: timeZone ?? hostZoneName(),
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

type Parts = Readonly<Record<keyof typeof fields, string>>;

const fields = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
} as const;

function readLocalParts(atMs: number): Parts {
  const at = new Date(atMs);
  const twoDigits = (count: number): string => String(count).padStart(2, '0');
  return {
    year: String(at.getFullYear()),
    month: twoDigits(at.getMonth() + 1),
    day: twoDigits(at.getDate()),
    hour: twoDigits(at.getHours()),
    minute: twoDigits(at.getMinutes()),
    second: twoDigits(at.getSeconds()),
  };
}

function partsReaderOf(timeZone: string): (atMs: number) => Parts {
  const format = new Intl.DateTimeFormat('en-GB', { ...fields, hourCycle: 'h23', timeZone });
  return (atMs) => {
    const parts = format.formatToParts(atMs).map(({ type, value }) => [type, value]);
    return Object.fromEntries(parts) as Parts;
  };
}
