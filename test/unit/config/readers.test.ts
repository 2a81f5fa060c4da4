import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  expectedDuration,
  longestDurationMs,
  longestTimerMs,
  parseByteSize,
  parseDelayMs,
  parseDurationMs,
} from '../../../src/settings/readers.ts';

test.each([
  ['250ms', 250],
  ['30s', 30_000],
  ['10m', 600_000],
  ['10min', 600_000],
  ['10 minutes', 600_000],
  ['1.5h', 5_400_000],
  ['2 hours', 7_200_000],
  ['90d', 7_776_000_000],
  ['2w', 1_209_600_000],
  ['100000d', longestDurationMs],
])('%s is %i ms', (text, durationMs) => {
  expect(parseDurationMs(text)).toBe(durationMs);
});

test.each([
  '',
  ' ',
  '10',
  'm',
  '0s',
  '0.0001ms',
  '-5m',
  '+5m',
  '10M',
  '10 parsecs',
  '1e3s',
  '10m 5s',
  '10m10',
  '5y',
  'Infinitys',
  'NaNs',
  '٣s',
  '1.s',
  '.5s',
  `${'9'.repeat(400)}d`,
  '100001d',
  '10m\n',
])('%j is no duration', (text) => {
  expect(parseDurationMs(text)).toBeNull();
});

test.each([
  ['0', 0],
  ['0s', 0],
  ['0 min', 0],
  ['0.0001ms', 0],
  ['30s', 30_000],
  ['', null],
  ['0 parsecs', null],
  ['00', null],
  ['-1s', null],
  ['10', null],
])('a delay of %j is %j ms', (text, delayMs) => {
  expect(parseDelayMs(text)).toBe(delayMs);
});

test('any text gives a positive whole number of milliseconds, with which there is a date, or null', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d{1,20}(\.\d{1,9})? ?[smhdw]$/)), (text) => {
      const durationMs = parseDurationMs(text);
      if (durationMs === null) return;
      expect(Number.isSafeInteger(durationMs) && durationMs > 0).toBe(true);
      const dates = [Date.now() + durationMs, Date.now() - durationMs];
      expect(dates.map((ms) => new Date(ms).getTime())).toEqual(dates);
    }),
  );
});

test.each([
  ['soon', 'a duration such as 30s, 10m or 2h'],
  ['0s', 'a duration such as 30s, 10m or 2h'],
  [30, 'a duration such as 30s, 10m or 2h'],
  [' 100001d ', 'a duration of at most 100000d'],
])('where %j was found, %s is expected', (found, expected) => {
  expect(expectedDuration(found)).toBe(expected);
});

test('a timer of the longest time waits, and one of a millisecond more fires at once', async () => {
  const warnings: string[] = [];
  const collect = (warning: Error) => warnings.push(warning.name);
  process.on('warning', collect);
  clearTimeout(setTimeout(() => {}, longestTimerMs));
  clearTimeout(setTimeout(() => {}, longestTimerMs + 1));
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', collect);
  expect(warnings).toEqual(['TimeoutOverflowWarning']);
});

test.each([
  ['100b', 100],
  ['64kb', 65_536],
  ['256mb', 268_435_456],
  ['256 MB', 268_435_456],
  ['1.5gb', 1_610_612_736],
  ['1tb', 1_099_511_627_776],
  ['1G', 1_073_741_824],
  ['256m', 268_435_456],
  ['256MiB', 268_435_456],
])('%s is %i bytes', (text, size) => {
  expect(parseByteSize(text)).toBe(size);
});

test.each(['', '256', 'mb', '0mb', '-1mb', '256mi', '256bb', '1e3kb', 'NaNkb', '64kb ', '1pb', `${'9'.repeat(400)}tb`])(
  '%j is no size',
  (text) => {
    expect(parseByteSize(text)).toBeNull();
  },
);

test('any text gives a positive whole number of bytes or null', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d{1,20}(\.\d{1,9})? ?[kmgt]?b$/)), (text) => {
      const size = parseByteSize(text);
      expect(size === null || (Number.isSafeInteger(size) && size > 0)).toBe(true);
    }),
  );
});
