import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMissedPasses } from '../../src/schedule/expected-call.ts';

const HOUR = 3_600_000;

function find(hours: readonly number[], since = 0, until = 24, periodMs: number | null = HOUR) {
  const calledAtMs = hours.map((hour) => hour * HOUR);
  return findMissedPasses({ periodMs, calledAtMs, sinceMs: since * HOUR, untilMs: until * HOUR });
}

describe('missed passes', () => {
  test('are none where every pass came, up to half a period late', () => {
    const late = Array.from({ length: 24 }, (_, hour) => hour + (hour % 2) * 0.4);
    expect(find(late)).toEqual({ count: 0, gaps: [] });
  });

  test('are counted in the gap between two passes', () => {
    expect(find([0, 1, 5, 6], 0, 7)).toEqual({
      count: 3,
      gaps: [{ fromMs: 1 * HOUR, toMs: 5 * HOUR, count: 3 }],
    });
  });

  test('are counted since the last pass, which has no end yet', () => {
    expect(find([20], 0, 24)).toEqual({
      count: 3,
      gaps: [{ fromMs: 20 * HOUR, toMs: null, count: 3 }],
    });
    expect(find([23], 0, 24.4)?.count).toBe(0);
    expect(find([23], 0, 24.6)?.count).toBe(1);
  });

  test('count only inside the window, also when the last pass was before it', () => {
    expect(find([0], 20, 24)?.count).toBe(4);
    expect(find([0, 22], 20.5, 22.2)?.count).toBe(1);
  });

  test('are unknown for a tier without a period and for one that was never called', () => {
    expect(find([0, 9], 0, 24, null)).toBeNull();
    expect(find([])).toBeNull();
  });

  test('plus those that came make as many as the time has periods', () => {
    const came = fc.uniqueArray(fc.integer({ min: 0, max: 100 }), { minLength: 1 });
    fc.assert(
      fc.property(came, (hours) => {
        const ascending = hours.toSorted((one, other) => one - other);
        const missed = find(ascending, 0, 101)?.count ?? Number.NaN;
        expect(missed + ascending.length).toBe(101 - (ascending[0] ?? 0));
      }),
    );
  });
});
