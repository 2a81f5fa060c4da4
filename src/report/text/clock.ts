import { readlinkSync } from 'node:fs';
import { UNKNOWN } from '../../system/base/format.ts';
import { isInstant } from '../../system/base/values.ts';
import { hostZone } from '../../system/base/zone.ts';

/** Shows instants in one time zone, and what is none as unknown. The store knows only UTC. */
export interface Clock {
  /** `Europe/Berlin`. */
  readonly zone: string;
  /** `2026-11-03 14:05:09`. */
  dateTime(atMs: number): string;
  /** `3 Nov 14:05`: no number that may be a day or a month. A day of another year: `2025-11-03`. */
  short(atMs: number): string;
}

/** `14:02 to 14:05`, and with the day if the two have different ones. */
export function spanOf(fromMs: number, toMs: number, clock: Clock): string {
  const [fromDay, from = ''] = clock.dateTime(fromMs).split(' ');
  const [toDay, to = ''] = clock.dateTime(toMs).split(' ');
  if (fromDay !== toDay) return `${clock.short(fromMs)} to ${clock.short(toMs)}`;
  return `${from.slice(0, 5)} to ${to.slice(0, 5)}`;
}

/** A clock of the host's own zone, unless another is named. */
export function createClock(nowMs: number, timeZone?: string): Clock {
  const read = timeZone === undefined ? readHostTime : createReader(timeZone);
  const thisYear = read(nowMs).year;
  return {
    zone: timeZone ?? nameOfHostZone(),
    dateTime: (atMs) => {
      if (!isInstant(atMs)) return UNKNOWN;
      const { year, month, day, hour, minute, second } = read(atMs);
      return `${year}-${month}-${day} ${hour}:${minute}:${second}`;
    },
    short: (atMs) => {
      if (!isInstant(atMs)) return UNKNOWN;
      const { year, month, day, hour, minute } = read(atMs);
      if (year !== thisYear) return `${year}-${month}-${day}`;
      return `${Number(day)} ${months[Number(month) - 1]} ${hour}:${minute}`;
    },
  };
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

const parts = ['year', 'month', 'day', 'hour', 'minute', 'second'] as const;

type LocalTime = Readonly<Record<(typeof parts)[number], string>>;

/** Names of UTC: `Intl` replaces some of them by others. */
const universal = /^(?:Etc\/)?(?:UTC|UCT|GMT|Universal|Zulu|Greenwich)$/;

/**
 * The name of the host's zone, read from the same link as `Intl` does. Asking `Intl` takes as long as half a start of
 * Node.
 */
function nameOfHostZone(): string {
  if (process.env.TZ !== undefined) return hostZone();
  try {
    const [, zone] = /\/zoneinfo\/(?:posix\/)?(.+)$/.exec(readlinkSync('/etc/localtime')) ?? [];
    if (zone === undefined) return hostZone();
    return universal.test(zone) ? 'UTC' : zone;
  } catch {
    return hostZone();
  }
}

/** Much cheaper than `Intl`, which is loaded only for another zone. */
function readHostTime(atMs: number): LocalTime {
  const date = new Date(atMs);
  const two = (number: number): string => String(number).padStart(2, '0');
  return {
    year: String(date.getFullYear()),
    month: two(date.getMonth() + 1),
    day: two(date.getDate()),
    hour: two(date.getHours()),
    minute: two(date.getMinutes()),
    second: two(date.getSeconds()),
  };
}

function createReader(timeZone: string): (atMs: number) => LocalTime {
  const options = Object.fromEntries(parts.map((part) => [part, '2-digit']));
  const year = 'numeric';
  const format = new Intl.DateTimeFormat('en-GB', { ...options, year, timeZone, hourCycle: 'h23' });
  return (atMs) => {
    const read = format.formatToParts(atMs).map((part) => [part.type, part.value]);
    return Object.fromEntries(read) as LocalTime;
  };
}
