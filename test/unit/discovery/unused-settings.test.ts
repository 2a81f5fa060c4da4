import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

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
