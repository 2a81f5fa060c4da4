import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseByteSize } from '../../src/settings/readers.ts';

test.each([
  ['100b', 100],
  ['64kb', 65_536],
  ['256mb', 268_435_456],
  ['256 MB', 268_435_456],
  ['1.5gb', 1_610_612_736],
  ['1tb', 1_099_511_627_776],
])('%s is %i bytes', (text, size) => {
  expect(parseByteSize(text)).toBe(size);
});

test.each([
  '',
  '256',
  'mb',
  '0mb',
  '-1mb',
  '256m',
  '256mib',
  '1e3kb',
  'NaNkb',
  '64kb ',
  '1pb',
  `${'9'.repeat(400)}tb`,
])('%j is no size', (text) => {
  expect(parseByteSize(text)).toBeNull();
});

test('any text gives a positive whole number of bytes or null', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.stringMatching(/^\d{1,20}(\.\d{1,9})? ?[kmgt]?b$/)),
      (text) => {
        const size = parseByteSize(text);
        expect(size === null || (Number.isSafeInteger(size) && size > 0)).toBe(true);
      },
    ),
  );
});
