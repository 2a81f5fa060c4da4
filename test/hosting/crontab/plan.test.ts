import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type CronChoice, choiceOfLines, planCrontab, reasonToVanish } from '../../../src/hosting/crontab/plan.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';

const choice: CronChoice = { tiers: undefined, due: null, workMinutes: null };

test.each([
  { ...choice, tiers: 'hourly,daily' },
  { ...choice, tiers: '3days', workMinutes: 15 },
  { ...choice, due: ['--budget', '1 hour'], workMinutes: 1 },
  { ...choice, due: [] },
])('the options are read from the lines that were written with them: %j', (options) => {
  const site = makeTemporaryRoot({
    "it's 100%/jobs/hourly/a.sh": '',
    "it's 100%/jobs/daily/b.sh": '',
    "it's 100%/jobs/3days/c.sh": '',
  });
  const root = join(site, "it's 100%");
  const { lines } = planCrontab(root, '/opt/dist', options);
  expect(choiceOfLines(root, lines)).toEqual(options);
});

test.each([
  '/home/me/.nvm/versions/node/v24.1.0/bin/node',
  '/home/me/nodevenv/app/22/bin/node',
  '/run/user/1000/fnm_multishells/1_2/bin/node',
  '/home/me/.local/share/fnm/node-versions/v24.1.0/installation/bin/node',
  '/home/me/.volta/tools/image/node/24.1.0/bin/node',
  '/home/me/.asdf/installs/nodejs/24.1.0/bin/node',
  '/home/linuxbrew/.linuxbrew/Cellar/node/24.1.0/bin/node',
  '/home/me/site/node_modules/node/bin/node',
  '/home/me/.npm/_npx/0123456789abcdef/node_modules/folder-runner/dist/bin.cjs',
])('%s may vanish, and the reason is told', (path) => {
  expect(reasonToVanish(path)).toMatch(/^(?:is|belongs|comes) /);
});

test.each([
  '/usr/bin/node',
  '/opt/cpanel/ea-nodejs22/bin/node',
  '/home/me/node/bin/node',
  '/home/me/site/node_modules/folder-runner/dist/bin.cjs',
])('%s stays', (path) => {
  expect(reasonToVanish(path)).toBeNull();
});
