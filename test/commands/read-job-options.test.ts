import { expect, test } from 'vitest';
import { numberIn, readJobOptions } from '../../src/commands/shared/options.ts';

test('what was not said is left out', () => {
  expect(readJobOptions({})).toEqual({});
  expect(Object.keys(readJobOptions({ at: '+1h' }))).toEqual(['runAt']);
});

test('each option has its name in the queue', () => {
  const words = {
    at: '+10 minutes',
    priority: '-5',
    retries: '3',
    retryDelay: 'exponential',
    unique: 'k',
    onDuplicate: 'merge',
    repeat: 'HOURLY',
    missed: 'skip',
    parent: '7',
    onChildFailure: 'fail',
    group: 'g',
    lease: '5m',
  };
  expect(readJobOptions({ ...words, json: true } as typeof words)).toEqual({
    runAt: '+10 minutes',
    priority: -5,
    retries: 3,
    retryDelay: 'exponential',
    uniqueKey: 'k',
    onDuplicate: 'merge',
    repeat: 'HOURLY',
    missed: 'skip',
    parent: 7,
    onChildFailure: 'fail',
    group: 'g',
    lease: '5m',
  });
});

test.each([
  ['12', 12],
  ['-1', -1],
  ['1.5', '1.5'],
  ['0x10', '0x10'],
  ['', ''],
  ['many', 'many'],
])('%j is %j', (word, value) => {
  expect(numberIn(word)).toBe(value);
});
