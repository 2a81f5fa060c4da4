import { expect, test } from 'vitest';
import { readCount } from '../../../src/commands/shared/option-readers.ts';

test.each([
  ['1', 1],
  ['1000', 1000],
])('%j is %j', (word, count) => {
  expect(readCount(word, '--limit', 1000)).toBe(count);
});

test.each([['0'], ['-1'], ['1001'], ['1.5'], ['many'], ['']])('%j is refused', (word) => {
  expect(() => readCount(word, '--limit', 1000)).toThrow(
    `--limit must be a whole number from 1 to 1000, found ${JSON.stringify(word)}.`,
  );
});
