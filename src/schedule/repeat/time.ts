import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { nearestName } from '../../system/base/suggest.ts';

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
