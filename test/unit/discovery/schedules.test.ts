import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** What is said of a script with this schedule in that tier. */
async function look(tier: string, tags: string) {
  const root = makeTemporaryRoot({ [`jobs/${tier}/a.sh`]: `#!/bin/sh\n${tags.replaceAll(/^/gm, '# ')}\nexit 0\n` });
  const { tiers } = await discover(root, defaultSettings);
  const { refusals = [], warnings = [] } = tiers[0]?.scripts[0] ?? {};
  return { refusals, warnings };
}

const fine = { refusals: [], warnings: [] };

test.each([
  ['hourly', '@schedule weekly on monday at 07:00'],
  ['daily', '@schedule daily at 02:30\n@timezone Europe/Berlin'],
  ['monthly', '@schedule monthly on the last friday at 06:00'],
  ['monthly', '@schedule monthly on 31 at 06:00'],
  ['weekly', '@schedule on day 1 and 15 at 06:00'],
  ['yearly', '@schedule 0 0 29 2 *'],
  ['15min', '@schedule weekdays every 15min from 09:00 to 17:00'],
])('in jobs/%s a script may say %s', async (tier, tags) => {
  expect(await look(tier, tags)).toEqual(fine);
});

test.each([
  ['hourly', 'every 5min', '5min'],
  ['hourly', '*/20 * * * *', '15min'],
  ['daily', 'daily at 06:00 and 18:00', 'hourly'],
  ['weekly', 'weekly on monday and thursday at 06:00', 'daily'],
  ['monthly', 'on day 1 and 15 at 06:00', 'weekly'],
  ['5min', 'every 2 minutes', '2min'],
])('in jobs/%s a schedule %s is refused, with the tier that would do: %s', async (tier, schedule, better) => {
  expect((await look(tier, `@schedule ${schedule}`)).refusals).toEqual([
    `its schedule "${schedule}" is more frequent than jobs/${tier}: move it to jobs/${better}`,
  ]);
});

test('a schedule that cannot be read is refused, with what was meant', async () => {
  const { refusals } = await look('hourly', '@schedule dayly at 05:00');
  expect(refusals).toEqual([expect.stringMatching(/^its schedule "dayly at 05:00" is wrong: .*daily/)]);
});

test('in a tier that cron does not call, a schedule has a warning', async () => {
  const { refusals, warnings } = await look('nightly', '@schedule daily at 05:00');
  expect(refusals).toEqual([]);
  expect(warnings).toEqual([expect.stringContaining('cron does not call jobs/nightly')]);
});

test('a time zone without a schedule is pointed out', async () => {
  expect(await look('hourly', '@timezone Europe/Berlin')).toEqual({
    refusals: [],
    warnings: ['jobs/hourly/a.sh: @timezone has no effect without @schedule; add one such as @schedule daily at 02:30'],
  });
});
