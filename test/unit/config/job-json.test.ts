import { expect, test } from 'vitest';
import { describeExcess } from '../../../src/child/contract.ts';

const MIB = 1024 * 1024;
const nested = (depth: number): string => '[{"a":'.repeat(depth / 2) + 1 + '}]'.repeat(depth / 2);

test.each([
  ['{}'],
  [`"${'x'.repeat(MIB - 2)}"`],
  [nested(1000)],
  [`[${nested(998)},${nested(998)}]`],
  ['['.repeat(1000) + ']'.repeat(1000)],
  [JSON.stringify('[{'.repeat(2000))],
  [JSON.stringify('\\"['.repeat(2000))],
])('is what a job may hold: %#', (text) => {
  JSON.parse(text);
  expect(describeExcess(text)).toBeNull();
});

test.each([
  [`"${'x'.repeat(MIB - 1)}"`, `JSON of at most 1 MiB, found ${MIB + 1} bytes; `],
  [`"${'é'.repeat(MIB / 2)}"`, `JSON of at most 1 MiB, found ${MIB + 2} bytes; `],
  [nested(1002), 'JSON nested at most 1000 deep'],
  ['['.repeat(1001) + ']'.repeat(1001), 'JSON nested at most 1000 deep'],
  [`["\\"]",${nested(1000)}]`, 'JSON nested at most 1000 deep'],
])('is more than that: %#', (text, expected) => {
  JSON.parse(text);
  expect(describeExcess(text)?.slice(0, expected.length)).toBe(expected);
});
