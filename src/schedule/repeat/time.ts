import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { nearestName } from '../../system/base/suggest.ts';

export const SECOND_MS = 1000;
export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

export type FixedUnit = 'second' | 'minute' | 'hour' | 'day';

export const fixedUnitMs: Readonly<Record<FixedUnit, number>> = {
  second: SECOND_MS,
  minute: MINUTE_MS,
  hour: 3_600_000,
  day: DAY_MS,
};

/** The calendar of the rules: the years that have four digits. */
const FIRST_INSTANT = Date.parse('0000-01-01T00:00:00Z');
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

/** False for what is no number, too. */
export function isInCalendar(atMs: number): boolean {
  return atMs >= FIRST_INSTANT && atMs <= LAST_INSTANT;
}

const form =
  /^(?<date>\d{4}-\d\d-\d\d)(?:[ T](?<time>\d\d:\d\d)(?::(?<second>\d\d)(?<fraction>\.\d{1,9})?)?(?<zone>Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Epoch milliseconds of `2026-03-10` (midnight), `2026-03-10 13:00`, `2026-03-10 13:00:00`: UTC unless
 * a zone is given, as `Z` or `+01:00`. Null for what is no such time.
 */
export function parseInstant(text: string): number | null {
  const parts = form.exec(text.trim())?.groups;
  if (parts === undefined) return null;
  const { date, time = '00:00', second = '00', fraction = '', zone = 'Z' } = parts;
  const wallMs = Date.parse(`${date}T${time}:${second}Z`);
  // `Date` takes February 30th for March 2nd, and 24:00 for the next day.
  if (Number.isNaN(wallMs) || formatInstant(wallMs) !== `${date} ${time}:${second}`) return null;
  const atMs = Date.parse(`${date}T${time}:${second}${fraction}${zone}`);
  return Number.isNaN(atMs) ? null : atMs;
}

/** `2026-03-10 13:00:00`, in UTC. */
export function formatInstant(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}

/** Whether there are clocks of that zone here: `Europe/Berlin`, `UTC`. */
export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The zone of this host; UTC where `TZ` names one that there is not, as `Date` has it then. */
export function hostZone(): string {
  const zone: string | undefined = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone !== undefined && isZone(zone) ? zone : 'UTC';
}

/** The zone that cron goes by, whatever `TZ` says here; null: nobody knows. */
export function machineZone(): string | null {
  return linkedZone() ?? (existsSync('/etc/localtime') ? writtenZone() : 'UTC');
}

function linkedZone(): string | null {
  try {
    return shorten(readlinkSync('/etc/localtime').split('/zoneinfo/')[1] ?? null);
  } catch {
    return null;
  }
}

/** Where the link is a copy: Debian's, and what containers have. */
function writtenZone(): string | null {
  try {
    return shorten(readFileSync('/etc/timezone', 'utf8').trim());
  } catch {
    return null;
  }
}

function shorten(zone: string | null): string | null {
  return zone === 'Etc/UTC' ? 'UTC' : zone;
}

/** The zone that was probably meant: `Europe/Berlin` for `Europe/berln`, and for `berlin`. */
export function nearestZone(name: string): string | null {
  const zones = Intl.supportedValuesOf('timeZone');
  const city = `/${name.toLowerCase().replaceAll(' ', '_')}`;
  const ofCity = zones.find((zone) => zone.toLowerCase().endsWith(city));
  return ofCity ?? nearestName(name, zones);
}
