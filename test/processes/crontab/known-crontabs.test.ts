import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { endWithNewline } from '../../../src/hosting/crontab/block.ts';
import { planImport } from '../../../src/hosting/crontab/import/plan.ts';
import { callCommand, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeFakeCrontab } from '../../support/root.ts';
import { readAsCron, runAsCron } from './as-cron.ts';
import { crontabNames, makeSandbox, readCrontabFile } from './sandbox.ts';

interface PlannedLine {
  readonly line: number;
  readonly script: string | null;
  readonly notes: readonly string[];
}

/** The scripts that each crontab becomes, and how many of its lines stay as they are. */
const plans: Readonly<Record<string, { readonly scripts: readonly string[]; readonly left: number }>> = {
  certbot: { scripts: ['12hours/certbot-renew', '12hours/certbot-renew-2', '15min/certbot-renew-3'], left: 0 },
  cpanel: { scripts: ['30min/cron-index', '15min/www-example-com-cron'], left: 0 },
  django: { scripts: ['15min/site-manage-clearsessions', '5min/site-manage-send-queued-mail'], left: 0 },
  drupal: { scripts: ['hourly/www-example-com-cron', '15min/drush-cron', '15min/intranet-example-com-cron'], left: 0 },
  joomla: { scripts: ['1min/joomla-scheduler-run', '15min/finder-indexer'], left: 0 },
  laravel: { scripts: ['1min/artisan-schedule-run', '5min/artisan-queue-work'], left: 0 },
  magento: { scripts: [], left: 1 },
  matomo: { scripts: ['15min/matomo-console-core-archive'], left: 0 },
  mediawiki: { scripts: ['hourly/runjobs', '15min/wiki-run'], left: 0 },
  moodle: { scripts: ['1min/moodle-cron', '1min/moodle-cron-2'], left: 0 },
  mysqldump: { scripts: ['15min/mysqldump', '15min/find', '15min/mysqldump-2'], left: 0 },
  nextcloud: { scripts: ['5min/nextcloud-cron', '15min/occ-preview-pre-generate'], left: 0 },
  personal: {
    scripts: [
      '15min/start-tunnel',
      '4min/poll',
      '15min/mail',
      '10min/sync-run',
      '15min/backup',
      '15min/tar',
      '15min/echo',
      '15min/send',
      '15min/from-windows',
      '15min/month-end',
    ],
    left: 4,
  },
  phpbb: { scripts: ['5min/phpbbcli-cron-run'], left: 0 },
  plesk: { scripts: ['hourly/httpdocs-cron', '15min/import'], left: 0 },
  prestashop: { scripts: ['hourly/www-example-com-index', '20min/gsitemap-cron'], left: 0 },
  'rails-whenever': { scripts: [], left: 2 },
  rsync: { scripts: ['15min/rsync', '15min/rsync-2'], left: 0 },
  symfony: { scripts: ['10min/app-console-app-send-newsletters', '15min/app-console-swiftmailer-spool-send'], left: 0 },
  wordpress: {
    scripts: [
      '15min/www-example-com-wp-cron',
      '15min/blog-example-com-wp-cron',
      '5min/wp-cron',
      '10min/wp-cron-2',
      '15min/wp-cron-3',
    ],
    left: 0,
  },
};

describe('Twenty crontabs', () => {
  test('are twenty, and each has a known plan', () => {
    expect(crontabNames).toHaveLength(20);
    expect(Object.keys(plans)).toEqual(crontabNames);
  });

  test.each(crontabNames)('%s becomes the same scripts, and the same number of lines stays', async (name) => {
    const user = userInfo().username;
    const root = mkdtempSync(join(tmpdir(), 'known-crontabs-'));
    onTestFinished(() => rmSync(root, { recursive: true }));
    mkdirSync(join(root, 'jobs'));
    const crontab = Buffer.from(readCrontabFile(name).replaceAll(' root ', ` ${user} `), 'latin1');
    const format = name === 'certbot' ? 'cron.d' : 'crontab';
    const place = { root, home: root, user, given: new Map(), mailTo: undefined };
    const { lines, scripts } = await planImport(crontab, format, place);
    const found = scripts.map(({ path }) => path.replace(/^jobs\/(.*)\.sh$/, '$1'));
    expect({ scripts: found, left: lines.length - scripts.length }).toEqual(plans[name]);
  });

  test.each(crontabNames)(
    '%s: each imported line runs as cron ran it, and undone the crontab is the same byte for byte',
    async (name) => {
      const sandbox = makeSandbox(name);
      const isSystem = name === 'certbot';
      const before = Buffer.from(sandbox.crontab, 'latin1');
      const lines = readAsCron(sandbox.crontab, isSystem);
      const wanted = new Map(
        lines.map((each) => [each.line, { ...runAsCron(each, sandbox.home), calls: sandbox.takeCalls() }]),
      );
      const wantedFiles = sandbox.readFiles();
      sandbox.reset();

      const root = join(sandbox.home, 'runner');
      mkdirSync(join(root, 'jobs'), { recursive: true });
      const crontab = makeFakeCrontab();
      crontab.write(before);
      const place = { cwd: root, env: { ...crontab.env, HOME: sandbox.home } };
      const format = isSystem ? ['--format', 'cron.d'] : [];
      const plan = await callCommand(['cron', '--import', ...format, '--json'], place);
      expect(plan.stderr).toBe('');
      const planned: readonly PlannedLine[] = JSON.parse(plan.stdout).lines;
      expect(crontab.read()).toEqual(before);
      // With a user behind its times, no line is one of a user's own crontab.
      const source = isSystem ? ['-', ...format] : [];
      const applied = runCommand(['cron', '--import', ...source, '--apply'], {
        ...place,
        ...(isSystem && { input: sandbox.crontab }),
      });
      expect(applied).toMatchObject({ status: 0 });

      const imported = planned.filter(({ script }) => script !== null);
      expect(planned.filter(({ script, notes }) => script === null && notes.length === 0)).toEqual([]);
      expect(imported.length).toBeGreaterThan(0);
      for (const { line, script } of imported) {
        const short = (script as string).replace(/^jobs\/(.*)\.sh$/, '$1');
        runCommand(['run', short], place);
        const [run] = queryLog<{ exit_code: number; output: string }>(
          root,
          'select exit_code, output from runs where script = ?',
          short,
        );
        const found = { status: run?.exit_code, output: run?.output, calls: sandbox.takeCalls() };
        expect({ line, ...found }).toEqual({ line, ...wanted.get(line) });
      }
      const left = lines.filter(({ line }) => !imported.some((each) => each.line === line));
      if (left.length === 0) expect(sandbox.readFiles()).toEqual(wantedFiles);

      expect(await callCommand(['cron', '--undo'], place)).toMatchObject({ status: 0 });
      expect(crontab.read()).toEqual(endWithNewline(before));
      expect(readdirSync(sandbox.home)).not.toContain('.folder-runner');
    },
    120_000,
  );
});
