import { expect, test } from 'vitest';
import { createPatternMatcher } from '../../src/discovery/place.ts';

test.each([
  ['hourly/clean-tmp', 'hourly/clean-tmp', true],
  ['hourly/clean-tmp', 'hourly/clean', false],
  ['hourly/*', 'hourly/clean', true],
  ['hourly/*', 'hourly/.hidden', true],
  ['hourly/*', 'daily/clean', false],
  ['*', 'hourly/clean', false],
  ['**', 'hourly/clean', true],
  ['*/clean-*', 'daily/clean-tmp', true],
  ['{hourly,daily}/clean', 'daily/clean', true],
  ['hourly/[ab]?', 'hourly/b1', true],
  ['hourly/*.sh', 'hourly/clean.sh', true],
  ['hourly/größe %*', 'hourly/größe %\'"', true],
  ['!hourly/clean', 'daily/clean', false],
])('the pattern %s and the name %s: %s', async (pattern, name, isMatch) => {
  const matches = await createPatternMatcher([pattern, 'other/*']);
  expect(matches(pattern, name)).toBe(isMatch);
});

test('patterns without magic match only themselves', async () => {
  const matches = await createPatternMatcher(['hourly/clean']);
  expect(matches('hourly/clean', 'hourly/clean')).toBe(true);
  expect(matches('hourly/clean', 'hourly/clean-tmp')).toBe(false);
});
