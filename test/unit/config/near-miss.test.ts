import { expect, test } from 'vitest';
import { nearestName, nearestPath } from '../../../src/system/base/suggest.ts';

const tags = ['timeout', 'retries', 'retry-delay', 'memory', 'nice', 'env', 'tags', 'description'];

test.each([
  ['timout', 'timeout'],
  ['tmieout', 'timeout'],
  ['TIMEOUT', 'timeout'],
  ['retry', 'retry-delay'],
  ['retrydelay', 'retry-delay'],
  ['retryDelay', 'retry-delay'],
  ['retires', 'retries'],
  ['evn', null],
  ['en', 'env'],
  ['see', null],
  ['tag', 'tags'],
  ['mem', null],
  ['author', null],
  ['', null],
])('%j is taken for %j', (word, nearest) => {
  expect(nearestName(word, tags)).toBe(nearest);
});

test('the nearest of several wins', () => {
  expect(nearestName('hurly', ['daily', 'hourly', 'early'])).toBe('hourly');
});

test('nothing is near where there is nothing', () => {
  expect(nearestName('hourly', [])).toBeNull();
});

test.each([
  ['mail/welcom', 'mail/welcome'],
  ['welcome', 'mail/welcome'],
  ['elcome', 'mail/welcome'],
  ['bye', 'a/bye'],
  ['exprt', 'export'],
  ['other', null],
])('with folders %j is taken for %j', (word, nearest) => {
  expect(nearestPath(word, ['mail/welcome', 'export', 'a/bye', 'b/bye'])).toBe(nearest);
});
