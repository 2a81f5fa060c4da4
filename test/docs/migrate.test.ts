import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { planImport } from '../../src/hosting/crontab/import/plan.ts';
import { crontabNames, readCrontabFile } from '../hosting/crontab/import/sandbox.ts';
import { repository } from '../support/doc-examples.ts';

const rows = [
  ...readFileSync(join(repository, 'docs/migrate.md'), 'utf8').matchAll(/^\| ([a-z-]+) \| (.+) \| (\d+|–) \| .+ \|$/gm),
];

test('the table of crontabs has each of them, with the scripts that become of it and how many lines are left', async () => {
  const user = userInfo().username;
  const root = mkdtempSync(join(tmpdir(), 'migrate-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, 'jobs'));
  const found = await Promise.all(
    crontabNames.map(async (name) => {
      const crontab = Buffer.from(readCrontabFile(name).replaceAll(' root ', ` ${user} `), 'latin1');
      const format = name === 'certbot' ? 'cron.d' : 'crontab';
      const place = { root, home: root, user, given: new Map(), mailTo: undefined };
      const { lines, scripts } = await planImport(crontab, format, place);
      const names = scripts.map(({ path }) => `\`${path.replace(/^jobs\/(.*)\.sh$/, '$1')}\``);
      return [name, names.join(', ') || '–', String(lines.length - scripts.length || '–')];
    }),
  );
  expect(rows.map(([, ...cells]) => cells)).toEqual(found);
});
