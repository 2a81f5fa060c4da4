import { expect, test } from 'vitest';
import { parseJson } from '../../src/commands/shared/options.ts';

test.each([['{"a":1}'], ['[]'], ['"x"'], ['1'], ['null'], [' true ']])('%s is JSON', (text) => {
  expect(parseJson(text, 'The data')).toEqual(JSON.parse(text));
});

test('JSON that is nested too deep is reported', () => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000);
  expect(() => parseJson(deep, 'The data')).toThrow(/\(nested too deep\); expected JSON/);
});

test.each([
  ['', '(it is empty)'],
  ['  \n', '(it is empty)'],
  ['{secret:1}', '(error at character 2)'],
  ['{"secret":', '(it ends too early)'],
  ['secret', '(not a JSON value)'],
])('%j is none, and is not shown: it may be secret', (text, found) => {
  let message = '';
  try {
    parseJson(text, 'The data');
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message).toMatch(
    /^The data is not valid JSON \(.*\); expected JSON such as '.*' in single quotes\.$/,
  );
  expect(message).toContain(found);
  expect(message).not.toContain('secret');
});
