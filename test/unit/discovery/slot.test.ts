import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nextPeriodStart, periodStart, slotOf } from '../../../src/schedule/period.ts';
import { tries } from '../../support/tries.ts';

const minute = 60_000;
const tiers = ['1min', '5min', '10min', '15min', '20min', '30min', 'hourly', '2hours', 'daily', 'weekly', 'monthly'];
const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'];

function useZone(zone: string): void {
  const before = process.env.TZ;
  beforeAll(() => {
    process.env.TZ = zone;
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });
}

const instants = fc.integer({ min: Date.UTC(2025, 0, 1), max: Date.UTC(2028, 0, 1) });
/** Of clocks that nobody sets, mostly round ones: a wrong time zone or a slip of who has set it. */
const skews = fc.oneof(
  fc.integer({ min: -5 * minute, max: 5 * minute }),
  fc.integer({ min: -10, max: 10 }).map((halves) => (halves * minute) / 2),
);
const jitters = fc.integer({ min: 0, max: 900 });

/** Wherever rounding changes, a clock that is wrong by just so much is now on this side of it, now on the other. */
function isAtEdge(tier: string, ownMs: number, aheadMs: number): boolean {
  return slotOf(tier, ownMs, aheadMs - 1_000) !== slotOf(tier, ownMs, aheadMs + 1_000);
}

describe.each(zones)('in %s', (zone) => {
  useZone(zone);

  test.each(tiers)('where the clock is right, a slot of %s is its period', (tier) => {
    fc.assert(
      fc.property(instants, (at) => slotOf(tier, at, 0) === periodStart(tier, at)),
      { numRuns: tries(200) },
    );
  });

  test.each(tiers)('however wrong the clock is, call after call of %s has slot after slot', (tier) => {
    fc.assert(
      fc.property(instants, skews, fc.array(jitters, { minLength: 6, maxLength: 6 }), (from, aheadMs, late) => {
        let ownMs = periodStart(tier, from) as number;
        let before: number | null = null;
        for (const jitter of late) {
          fc.pre(!isAtEdge(tier, ownMs, aheadMs));
          // Cron is late by a moment, and so may be the answer of the clock.
          const slot = slotOf(tier, ownMs + jitter, aheadMs + jitter / 2) as number;
          if (before !== null && slot !== nextPeriodStart(tier, before)) return false;
          before = slot;
          ownMs = nextPeriodStart(tier, ownMs) as number;
        }
        return true;
      }),
      { numRuns: tries(100) },
    );
  });
});

const at = (time: string): number => Date.parse(`2026-11-21T${time}Z`);

describe('by the fleet’s clock', () => {
  useZone('UTC');

  test.each([
    ['hourly', '12:00:00', 0, '12:00:00'],
    ['hourly', '12:00:00.010', 400, '12:00:00'],
    ['hourly', '12:00:00.010', -400, '12:00:00'],
    ['hourly', '12:00:00', 5 * minute, '12:00:00'],
    ['hourly', '12:00:00', -5 * minute, '12:00:00'],
    ['hourly', '12:59:59', 2 * minute, '12:00:00'],
    ['15min', '12:00:00', -5 * minute, '12:00:00'],
    ['15min', '12:00:00', 9 * minute, '12:15:00'],
    ['10min', '12:00:00', -5 * minute, '11:50:00'],
    ['10min', '12:00:00', 5 * minute, '12:00:00'],
    ['5min', '12:00:00', 5 * minute, '12:05:00'],
    ['5min', '12:00:00', 5 * minute - 300, '12:05:00'],
    ['1min', '12:00:00', -5 * minute, '11:55:00'],
    ['daily', '00:00:01', -5 * minute, '00:00:00'],
  ])('a call of %s at %s by a clock that is %i ms behind has the slot of %s', (tier, time, aheadMs, slot) => {
    expect(new Date(slotOf(tier, at(time), aheadMs) as number)).toEqual(new Date(at(slot)));
  });

  test('a tier without a period has no slot', () => {
    expect(slotOf('by-hand', at('12:00:00'), 0)).toBeNull();
    expect(slotOf('by-hand', at('12:00:00'), minute)).toBeNull();
  });
});
