import { expect, test } from 'vitest';
import { createClock } from '../../../src/report/text/clock.ts';
import { countOf, formatBytes, formatDuration, formatPeriod, formatRate } from '../../../src/system/base/format.ts';

test.each([
  [null, '–'],
  [0, '0ms'],
  [0.3, '<1ms'],
  [22.6, '23ms'],
  [1234, '1.2s'],
  [419_800, '7m'],
  [200_400, '3m 20s'],
  [7_500_000, '2h 5m'],
  [-1, '–'],
  [-110_000_000_000, '–'],
])('a duration of %j ms reads %j', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [null, '–'],
  [0, '0B'],
  [46_242_202, '44.1MB'],
])('%j bytes read %j', (count, text) => {
  expect(formatBytes(count)).toBe(text);
});

test('a rate is rounded; only what never failed is 100%', () => {
  expect(formatRate(5 / 9)).toBe('55.6%');
  expect(formatRate(0.00001)).toBe('0%');
  expect(formatRate(0.99999)).toBe('99.9%');
  expect(formatRate(1)).toBe('100%');
  expect(formatRate(null)).toBe('–');
});

test('a count agrees with its noun', () => {
  expect(countOf(1, 'run')).toBe('1 run');
  expect(countOf(12_345, 'pass', 'passes')).toBe('12,345 passes');
});

test.each([
  [900_000, 'every 15 minutes'],
  [3_600_000, 'every hour'],
  [5_400_000, 'every 1 hour 30 minutes'],
  [86_400_000, 'every day'],
  [604_800_000, 'every week'],
  [2_592_000_000, 'every month'],
  [31_536_000_000, 'every year'],
])('a period of %j ms reads %j', (ms, text) => {
  expect(formatPeriod(ms)).toBe(text);
});

test('instants are shown in a zone, which has a name', () => {
  const clock = createClock(Date.parse('2026-11-03T12:00:00Z'), 'Europe/Berlin');
  expect(clock.zone).toBe('Europe/Berlin');
  expect(clock.dateTime(Date.parse('2026-07-01T22:04:09Z'))).toBe('2026-07-02 00:04:09');
  expect(clock.short(Date.parse('2026-11-03T12:00:00Z'))).toBe('3 Nov 13:00');
  expect(clock.short(Date.parse('2025-11-03T12:00:00Z'))).toBe('2025-11-03');
});
