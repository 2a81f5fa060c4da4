import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { nearestName } from './suggest.ts';

/** Whether this host knows the zone: `Europe/Berlin`, `UTC`. */
export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The zone of this process; UTC if `TZ` names an unknown one, as `Date` assumes then. */
export function hostZone(): string {
  const zone: string | undefined = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone !== undefined && isZone(zone) ? zone : 'UTC';
}

/**
 * Drops the caller's `TZ`. A shell's profile, a crontab and a panel may have different zones, and a daily script would
 * be due at another time for each of them. Until the settings name a zone, this process uses the machine's.
 *
 * @returns the caller's
 */
export function leaveCallersZone(): string | undefined {
  const { TZ } = process.env;
  delete process.env.TZ;
  return TZ;
}

/** Sets the zone of the settings for this process and all that it starts; null: the settings name none. */
export function enterZone(zone: string | null): void {
  if (zone !== null) process.env.TZ = zone;
}

let zoneOfRules: string | null = null;

/** The zone of rules that name none. */
export function ruleZone(): string {
  return zoneOfRules ?? hostZone();
}

/**
 * Sets the zone of rules for a program that opens the queue: it keeps its own zone, but its jobs' rules follow the zone
 * that all other callers use.
 */
export function keepRulesInZone(zone: string | null): void {
  const kept = zone ?? machineZone();
  zoneOfRules = kept !== null && isZone(kept) ? kept : null;
}

/** The zone that cron uses, whatever the zone of this process; null: unknown. */
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

/** For hosts where the link is a copy: Debian and containers. */
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

/** The zone that was probably meant: `Europe/Berlin` for `Europe/berln` and for `berlin`. */
export function nearestZone(name: string): string | null {
  const zones = Intl.supportedValuesOf('timeZone');
  const city = `/${name.toLowerCase().replaceAll(' ', '_')}`;
  const ofCity = zones.find((zone) => zone.toLowerCase().endsWith(city));
  return ofCity ?? nearestName(name, zones);
}
