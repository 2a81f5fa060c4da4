import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectCall, findMissedPasses, type PreviousCall } from '../../../src/schedule/expected-call.ts';

const at = (time: string): number => new Date(`2026-11-03T${time}`).getTime();
const byCron = (atMs: number): PreviousCall => ({ atMs, isDue: false });
const expected = (tier: string, last: string, now: string) => expectCall(tier, byCron(at(last)), at(now));

test('a tier is called again at the same minute of its next period', () => {
  expect(expected('hourly', '13:57:00', '14:10:00')).toEqual({ atMs: at('14:57:00'), isOverdue: false });
  expect(expected('15min', '13:33:05', '13:40:00')?.atMs).toBe(at('13:48:05'));
  expect(expected('daily', '04:06:00', '13:40:00')?.atMs).toBe(at('04:06:00') + 24 * 3_600_000);
});

test.each([
  ['15min', '13:33:00', '13:55:00', false],
  ['15min', '13:33:00', '13:56:00', true],
  ['hourly', '13:57:00', '15:26:00', false],
  ['hourly', '13:57:00', '15:28:00', true],
])('%s, called %s, is at %s overdue: %j', (tier, last, now, isOverdue) => {
  expect(expected(tier, last, now)?.isOverdue).toBe(isOverdue);
});

test('a tier of a day is overdue after an hour, not after half a day', () => {
  const last = at('04:06:00') - 24 * 3_600_000;
  expect(expectCall('daily', byCron(last), at('05:05:00'))?.isOverdue).toBe(false);
  expect(expectCall('daily', byCron(last), at('05:07:00'))?.isOverdue).toBe(true);
});

test.each([
  ['hourly', '14:50:00', false, '14:50:00'],
  ['hourly', '14:10:00', false, '15:10:00'],
  ['15min', '14:20:00', false, '14:35:00'],
  ['hourly', '14:50:00', true, '15:00:00'],
])('%s, called in three years at %s as the clock was ahead, `due` %j: now next at %s', (tier, time, isDue, next) => {
  const atMs = at(time) + 3 * 365 * 24 * 3_600_000;
  expect(expectCall(tier, { atMs, isDue }, at('14:30:00'))).toEqual({ atMs: at(next), isOverdue: false });
});

test('nothing is expected of what was never called or has no period', () => {
  expect(expectCall('hourly', null, at('14:00:00'))).toBeNull();
  expect(expectCall('by-hand', byCron(at('13:00:00')), at('14:00:00'))).toBeNull();
});

test('by `due` a tier is called in its next period, by the first call in it', () => {
  const last = { atMs: at('13:37:00'), isDue: true };
  expect(expectCall('15min', last, at('14:30:00'))).toEqual({ atMs: at('13:45:00'), isOverdue: false });
  expect(expectCall('15min', last, at('15:16:00'))?.isOverdue).toBe(true);
  const midnight = new Date('2026-11-04T00:00:00').getTime();
  expect(expectCall('daily', last, at('14:30:00'))?.atMs).toBe(midnight);
});

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
    expect(find([0, 1, 5, 6], 0, 7)).toEqual({ count: 3, gaps: [{ fromMs: 1 * HOUR, toMs: 5 * HOUR, count: 3 }] });
  });

  test('are counted since the last pass, which has no end yet', () => {
    expect(find([20], 0, 24)).toEqual({ count: 3, gaps: [{ fromMs: 20 * HOUR, toMs: null, count: 3 }] });
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
