import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type CronPeriod, parseCronPeriod } from '../../src/hosting/cron-period.ts';
import { spreadMinutes } from '../../src/hosting/spread-minutes.ts';

const periods = (...tiers: string[]): CronPeriod[] =>
  tiers.map((tier) => parseCronPeriod(tier) as CronPeriod);

const usual = periods('15min', 'hourly', 'daily', 'weekly', 'monthly');

test('no two of the usual tiers start in the same minute, nor within two of each other', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      const [quarter = 0, ...others] = spreadMinutes(root, usual);
      const starts = [0, 15, 30, 45].map((minute) => minute + quarter).concat(others);
      const sorted = starts.toSorted((a, b) => a - b);
      const gaps = sorted.map((minute, index) => (sorted[index + 1] ?? minute + 60) - minute);
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(3);
    }),
  );
});

test('the minutes in which everybody starts are left free', () => {
  fc.assert(
    fc.property(fc.string(), (root) => {
      const minutes = spreadMinutes(root, usual);
      expect(minutes.filter((minute) => minute % 15 === 0)).toEqual([]);
    }),
  );
});

test('two accounts start at different minutes, one account always at the same', () => {
  const roots = Array.from({ length: 50 }, (_, index) => `/home/user${index}/runner`);
  const hourly = roots.map((root) => spreadMinutes(root, usual)[1]);
  expect(new Set(hourly).size).toBeGreaterThan(15);
  expect(roots.map((root) => spreadMinutes(root, usual)[1])).toEqual(hourly);
});

test('a tier of each minute leaves no minute free, and every tier still has one', () => {
  expect(spreadMinutes('/home/me', periods('1min', '5min', 'hourly'))).toEqual([
    0,
    expect.toSatisfy((minute) => minute >= 0 && minute < 5),
    expect.toSatisfy((minute) => minute >= 0 && minute < 60),
  ]);
});
