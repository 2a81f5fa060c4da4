import { expect, test } from 'vitest';
import { describeProblem } from '../../../src/settings/table.ts';

const problem = {
  file: 'jobs/hourly/clean.sh',
  line: 3,
  setting: '@timeout',
  expected: 'a duration such as 30s, 10m or 2h',
};

test('a problem names file, line, setting, expectation and value', () => {
  expect(describeProblem({ ...problem, found: '10 parsecs' })).toBe(
    'jobs/hourly/clean.sh:3: @timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"',
  );
});

test('a problem without a known line names the file alone', () => {
  expect(describeProblem({ ...problem, line: null, found: 3 })).toBe(
    'jobs/hourly/clean.sh: @timeout must be a duration such as 30s, 10m or 2h, found 3',
  );
});

test('of a secret only the kind is told', () => {
  const kindOf = (found: unknown) => describeProblem({ ...problem, found, isSecret: true }).split(', found ')[1];
  expect(['hunter2', 4711, true, null, ['x'], undefined].map(kindOf)).toEqual([
    'a string',
    'a number',
    'a boolean',
    'null',
    'a list',
    'nothing',
  ]);
});

test.each([
  [undefined, 'nothing'],
  [null, 'null'],
  [true, 'true'],
  [[], 'an empty list'],
  [['a'], 'a list'],
  [{}, 'an object'],
  [() => 1, 'a function'],
  ['', '""'],
  ['a\u001b[31m\n"b', '"a\\u001b[31m\\n\\"b"'],
  ['x'.repeat(61), `"${'x'.repeat(60)}…"`],
])('the value %j is shown as %s', (found, shown) => {
  expect(describeProblem({ ...problem, found }).split(', found ')[1]).toBe(shown);
});
