import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatInstant, parseInstant } from '../../../src/schedule/repeat/rule.ts';

test.each([
  ['2026-03-10', '2026-03-10T00:00:00.000Z'],
  ['2026-03-10 13:45', '2026-03-10T13:45:00.000Z'],
  ['2026-03-10 13:45:09', '2026-03-10T13:45:09.000Z'],
  ['2026-03-10T13:45:09.123Z', '2026-03-10T13:45:09.123Z'],
  ['2026-03-10 13:45+01:00', '2026-03-10T12:45:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
])('%s', (text, iso) => {
  expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(iso);
});

test.each([
  '',
  'now',
  '2026-3-10',
  '2026-02-30',
  '2026-02-29',
  '2026-13-01',
  '2026-00-10',
  '2026-03-10 24:00',
  '2026-03-10 13:60',
  '2026-03-10 13:45:60',
  '2026-03-10 13',
  '2026-03-10Z',
  '2026-03-10 13:45+25:00',
  '2026-03-10 13:45 UTC',
])('%j is no time', (text) => {
  expect(parseInstant(text)).toBeNull();
});

test('what is written is read again', () => {
  const seconds = fc.integer({ min: -62_167_219_200, max: 253_402_300_799 });
  fc.assert(
    fc.property(seconds, (second) => {
      expect(parseInstant(formatInstant(second * 1000))).toBe(second * 1000);
    }),
  );
});
