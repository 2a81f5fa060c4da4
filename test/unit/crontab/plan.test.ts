import { expect, test } from 'vitest';
import { crontabBlock } from '../../../src/hosting/crontab/block.ts';
import { AS_INSTALLED, type AskedLines, planCrontab, reasonToVanish } from '../../../src/hosting/crontab/plan.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const COMMAND = '/home/me/site/node_modules/folder-runner/dist/bin.cjs';

function plan(root: string, asked: Partial<AskedLines>, crontab = '') {
  const { content, dropped } = planCrontab(root, { ...AS_INSTALLED, ...asked }, Buffer.from(crontab), {}, COMMAND);
  return { ...content, dropped, block: crontabBlock(root, content) };
}

const makeRoot = () => makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '', 'jobs/3days/c.sh': '' });

test.each<Partial<AskedLines>>([
  { tiers: 'hourly,daily' },
  { tiers: '3days', workMinutes: 15 },
  { due: ['--budget', '1 hour'], workMinutes: 1 },
  { due: [] },
  {},
])('what was asked for stays, when the lines are written anew without a word: %j', (asked) => {
  const root = makeRoot();
  const first = plan(root, asked);
  expect(plan(root, {}, first.block)).toEqual({ ...first, dropped: [] });
});

test('each choice can be taken back', () => {
  const root = makeRoot();
  const all = plan(root, {});
  const due = plan(root, { due: ['--budget', '55s'], workMinutes: 5 });
  expect(plan(root, { due: null, workMinutes: null }, due.block).lines).toHaveLength(3);
  expect(plan(root, { due: [] }, due.block).lines[0]).toMatch(/ due \S+$/);
  const chosen = plan(root, { tiers: 'daily' });
  expect(plan(root, { tiers: 'all' }, chosen.block).lines).toHaveLength(all.lines.length);
  expect(plan(root, { tiers: 'hourly' }, due.block)).toMatchObject({ chosenTiers: 'hourly', lines: { length: 2 } });
});

test('of tiers that were chosen, those that are gone are left out', () => {
  const root = makeRoot();
  const chosen = plan(root, { tiers: 'daily,3days' }).block.replace('daily,3days', 'daily,weekly');
  expect(plan(root, {}, chosen)).toMatchObject({ chosenTiers: 'daily', dropped: [expect.stringMatching(/ 3days /)] });
});

test.each([
  '/home/me/.nvm/versions/node/v24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/nodevenv/app/22/lib/node_modules/folder-runner/dist/bin.cjs',
  '/run/user/1000/fnm_multishells/1_2/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.local/share/fnm/node-versions/v24.1.0/installation/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.volta/tools/image/packages/folder-runner/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.asdf/installs/nodejs/24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/linuxbrew/.linuxbrew/Cellar/node/24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.npm/_npx/0123456789abcdef/node_modules/folder-runner/dist/bin.cjs',
])('%s may vanish, and the reason is told', (path) => {
  expect(reasonToVanish(path)).toMatch(/^(?:is|belongs) /);
});

test.each([
  '/usr/local/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/site/node_modules/folder-runner/dist/bin.cjs',
])('%s stays', (path) => {
  expect(reasonToVanish(path)).toBeNull();
});
