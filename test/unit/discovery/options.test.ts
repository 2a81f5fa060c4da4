import { expect, test } from 'vitest';
import { mergeOptions } from '../../../src/discovery/build-script.ts';
import { discover } from '../../../src/discovery/discover.ts';
import { createPatternMatcher } from '../../../src/discovery/jobs-folder.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const settings = {
  ...defaultSettings,
  defaults: { timeoutMs: 1, retries: 1, nice: 1, memoryBytes: 1, env: ['A'] },
  tiers: { hourly: { retries: 2, nice: 2, memoryBytes: 2, concurrency: 4 } },
  scripts: {
    'hourly/*': { nice: 3, memoryBytes: 3, description: 'first' },
    'hourly/clean.sh': { memoryBytes: 4, description: 'second' },
    'daily/*': { timeoutMs: 9 },
  },
};

async function merge(tier: string, tags = {}) {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  return mergeOptions(settings, tier, [`${tier}/clean`, `${tier}/clean.sh`], tags, matches);
}

test('tags win over globs, later globs over earlier, globs over the tier, the tier over defaults', async () => {
  expect(await merge('hourly', { description: 'tag' })).toEqual({
    timeoutMs: 1,
    env: ['A'],
    retries: 2,
    nice: 3,
    memoryBytes: 4,
    description: 'tag',
  });
});

test('a tier without settings has the defaults, whatever it is called', async () => {
  expect(await merge('constructor')).toEqual(settings.defaults);
  expect(await merge('__proto__')).toEqual(settings.defaults);
});

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

const options = { timeoutMs: 1000 };
const files = { 'jobs/hourly/clean-tmp.sh': '', 'jobs/daily/backup/index.ts': '' };

test('settings of tiers and scripts that fit nothing are pointed out', async () => {
  const settings = {
    ...defaultSettings,
    tiers: { hourly: options, dayly: options, queue: options },
    scripts: {
      'hourly/clean-*': options,
      'daily/backup/index.ts': options,
      'hourly/*.sh': options,
      'hourly/clean-tpm': options,
      'weekly/**': options,
    },
  };
  const { warnings } = await discover(makeTemporaryRoot(files), settings);
  expect(warnings).toEqual([
    'tiers["dayly"] in the settings matches no tier and has no effect; did you mean daily?',
    'tiers["queue"] in the settings matches no tier and has no effect',
    'scripts["hourly/clean-tpm"] in the settings matches no script and has no effect; did you mean hourly/clean-tmp?',
    'scripts["weekly/**"] in the settings matches no script and has no effect',
  ]);
});

test('a pass looks at one tier, and cannot tell', async () => {
  const settings = { ...defaultSettings, tiers: { dayly: options } };
  const { warnings } = await discover(makeTemporaryRoot(files), settings, { tier: 'hourly' });
  expect(warnings).toEqual([]);
});
