import { afterEach, describe, expect, test } from 'vitest';
import { hostZone } from '../../../src/system/base/zone.ts';
import { at, next, ranAt } from '../../unit/repeat/support.ts';

// In a process of its own: another test's queue keeps the zone of rules for the rest of its process.
describe('without a zone a rule follows the clock of the host', () => {
  const before = process.env.TZ;
  afterEach(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });

  test.each([
    ['Asia/Tokyo', '2026-03-10 01:00:00'],
    ['America/New_York', '2026-03-10 14:00:00'],
    // As `Date` has it then: UTC.
    ['Nowhere/AtAll', '2026-03-10 10:00:00'],
    [':/etc/localtime', '2026-03-10 10:00:00'],
    ['', '2026-03-10 10:00:00'],
  ])('with TZ=%s', async (zone, expected) => {
    process.env.TZ = zone;
    expect(await next('daily at 10:00', ranAt(at('2026-03-10 00:30')))).toBe(expected);
    if (zone.startsWith('A')) expect(hostZone()).toBe(zone);
  });
});
