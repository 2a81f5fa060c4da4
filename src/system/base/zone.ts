import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { nearestName } from './suggest.ts';

/** Whether there are clocks of that zone here: `Europe/Berlin`, `UTC`. */
export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The zone of this process; UTC where `TZ` names one that there is not, as `Date` has it then. */
export function hostZone(): string {
  const zone: string | undefined = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone !== undefined && isZone(zone) ? zone : 'UTC';
}

/**
 * The callers of a command have zones of their own: a shell's profile, a crontab, a panel. By each of them a daily
 * script would be due at another time, so no command takes `TZ` from its caller: until the settings name a zone, this
 * process lives in that of the machine.
 */
export function leaveCallersZone(): void {
  delete process.env.TZ;
}

/** From here on this process, and each that it starts, lives in the zone of the settings; null: they name none. */
export function enterZone(zone: string | null): void {
  if (zone !== null) process.env.TZ = zone;
}

let zoneOfRules: string | null = null;

/** The zone of rules that name none. */
export function ruleZone(): string {
  return zoneOfRules ?? hostZone();
}

/** A program that opens the queue keeps a zone of its own; the rules of its jobs have that of all other callers. */
export function keepRulesInZone(zone: string | null): void {
  const kept = zone ?? machineZone();
  zoneOfRules = kept !== null && isZone(kept) ? kept : null;
}

/** The zone that cron goes by, whatever this process lives in; null: nobody knows. */
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
