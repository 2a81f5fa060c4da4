import fc from 'fast-check';
import { expect, test } from 'vitest';
import { printableName } from '../../src/system/base/values.ts';

test.each([
  ['clean-tmp', 'clean-tmp'],
  ['größe 100% "x" \'y\' 👩‍💻', 'größe 100% "x" \'y\' 👩‍💻'],
  ['a\nb\tc\r', 'a\\nb\\tc\\r'],
  ['\u001b[31m\u0000', '\\u001b[31m\\u0000'],
  ['\u007f\u0085\u2028', '\\u007f\\u0085\\u2028'],
  ['gpj\u202ehs', 'gpj\\u202ehs'],
])('%j is shown as %s', (name, shown) => {
  expect(printableName(name)).toBe(shown);
});

test('no name is shown with a control character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      expect(printableName(name)).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u);
    }),
  );
});
