import { expect, test } from 'vitest';
import { parseJson } from '../../src/commands/shared/options.ts';

test.each([['{"a":1}'], ['[]'], ['"x"'], ['1'], ['null'], [' true ']])('%s is JSON', (text) => {
  expect(parseJson(text, 'The data')).toEqual(JSON.parse(text));
});

test('what is nested too deep is told so', () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  expect(() => parseJson(deep, 'The data')).toThrow(/found what is nested too deep\.$/);
});

test.each([
  ['', 'found nothing'],
  ['  \n', 'found nothing'],
  ['{secret:1}', 'found what is none from character 2 on'],
  ['{"secret":', 'found what ends too early'],
  ['secret', 'found what is none'],
])('%j is none, and is not shown: it may be secret', (text, found) => {
  let message = '';
  try {
    parseJson(text, 'The data');
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).toMatch(/^The data expects JSON, such as '.*' in single quotes, found .*\.$/);
  expect(message).toContain(found);
  expect(message).not.toContain('secret');
});
