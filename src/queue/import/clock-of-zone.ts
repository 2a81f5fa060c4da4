import { UsageError } from '../../config/usage-error.ts';
import { isZone, nearestZone } from '../repeat/time-zone.ts';
import { type OfClock, ofUtc } from './read-time.ts';

/** The clocks of a zone; undefined: of UTC. @throws {UsageError} when there is no such zone */
export async function clockOfZone(zone: string | undefined): Promise<OfClock> {
  if (zone === undefined || zone === 'UTC') return ofUtc;
  if (!isZone(zone)) throw new UsageError(describeUnknown(zone));
  const { Temporal } = await import('temporal-polyfill');
  return (wallMs) => {
    const wall = Temporal.Instant.fromEpochMilliseconds(wallMs).toZonedDateTimeISO('UTC');
    return wall.toPlainDateTime().toZonedDateTime(zone).epochMilliseconds;
  };
}

function describeUnknown(zone: string): string {
  const nearest = nearestZone(zone);
  const guess = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `--time-zone expects one such as Europe/Berlin, found ${JSON.stringify(zone)}${guess || '.'}`;
}
