import { expect, test } from 'vitest';
import { warnOfVanishingPath } from '../../src/hosting/vanishing-path.ts';

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
])('%s may vanish, and the sentence says what to do then', (path) => {
  expect(warnOfVanishingPath(path)).toMatch(/`runner cron --install` again after that/);
});

test.each([
  '/usr/bin/node',
  '/opt/cpanel/ea-nodejs22/bin/node',
  '/home/me/node/bin/node',
  '/home/me/site/node_modules/folder-runner/dist/bin.cjs',
])('%s stays', (path) => {
  expect(warnOfVanishingPath(path)).toBeNull();
});
