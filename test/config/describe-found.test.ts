import { expect, test } from 'vitest';
import { describeFound } from '../../src/system/base/values.ts';

const circle: { self?: unknown } = {};
circle.self = circle;

test.each([
  ['soon', '"soon"'],
  [undefined, 'undefined'],
  [10n, '10n'],
  [Symbol('a'), 'Symbol(a)'],
  ['x'.repeat(100), `"${'x'.repeat(79)}…`],
  [circle, 'what is no JSON'],
  [{ a: 1n }, 'what is no JSON'],
])('what was found is shown, whatever it is: %#', (found, shown) => {
  expect(describeFound(found)).toBe(shown);
});
