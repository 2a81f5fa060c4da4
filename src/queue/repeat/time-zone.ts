import { nearestName } from '../../config/near-miss.ts';

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

/** The zone that was probably meant: `Europe/Berlin` for `Europe/berln`, and for `berlin`. */
export function nearestZone(name: string): string | null {
  const zones = Intl.supportedValuesOf('timeZone');
  const city = `/${name.toLowerCase().replaceAll(' ', '_')}`;
  const ofCity = zones.find((zone) => zone.toLowerCase().endsWith(city));
  return ofCity ?? nearestName(name, zones);
}
