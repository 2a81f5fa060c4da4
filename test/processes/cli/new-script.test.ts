import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { cronEnv, type Ended, runCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

function call(root: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Ended {
  return runCommand(args, { cwd: root, env: { ...cronEnv(root), ...env } });
}

describe('runner new', () => {
  test.each(['ts', 'sh', 'php'])('a new script in %s is no refused one, and has a description', async (language) => {
    const root = makeTemporaryRoot();
    const { status, stdout, stderr } = call(root, ['new', 'hourly/import-orders', '--lang', language]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain(`jobs/hourly/import-orders.${language} was created.\n`);
    expect(stdout).toContain('runner run hourly/import-orders');
    expect(call(root, ['new', `queue/mail/welcome.${language}`]).status).toBe(0);
    const { tiers, handlers } = await discover(root, defaultSettings);
    const found = [...tiers.flatMap(({ scripts }) => scripts), ...handlers];
    expect(found.map(({ name }) => name)).toEqual(['hourly/import-orders', 'queue/mail/welcome']);
    for (const { refusals, warnings, options, path } of found) {
      expect({ refusals, warnings }).toEqual({ refusals: [], warnings: [] });
      expect(options.description).toMatch(/^Say in one line what this (script|handler) does/);
      const mode = ['sh', 'php'].includes(language) ? 0o755 : 0o644;
      expect(statSync(path).mode & 0o777).toBe(mode);
    }
  });

  test.each(['ts', 'sh'])('a new script and a new handler in %s run at once', (language) => {
    const root = makeTemporaryRoot();
    for (const name of ['hourly/a', 'queue/b']) call(root, ['new', name, '--lang', language]);
    expect(call(root, ['run', 'hourly/a'])).toMatchObject({ status: 0 });
    expect(call(root, ['tail', 'hourly/a']).stdout).toContain('looking at everything since the beginning\n');
    call(root, ['add', 'b', '{"to":"x"}']);
    expect(call(root, ['work'])).toMatchObject({ status: 0 });
    expect(JSON.parse(call(root, ['jobs', '--json']).stdout)).toMatchObject({
      jobs: [{ name: 'b', state: 'finished', result: { done: true } }],
    });
  });

  test.each(['commonjs', 'module'])('a new script and a new handler in ts run where package.json says %s', (type) => {
    const root = makeTemporaryRoot({ 'package.json': JSON.stringify({ type }) });
    for (const name of ['hourly/a', 'queue/b']) call(root, ['new', name, '--lang', 'ts']);
    expect(call(root, ['run', 'hourly/a'])).toMatchObject({ status: 0, stderr: '' });
    call(root, ['add', 'b', '{"to":"x"}']);
    expect(call(root, ['work'])).toMatchObject({ status: 0, stderr: '' });
  });

  test('without an extension or --lang it is TypeScript, and a folder with a schedule name is made', () => {
    const root = makeTemporaryRoot();
    expect(call(root, ['new', 'jobs/weekly/report']).stdout).toContain(
      'runner cron --install    lets cron call weekly',
    );
    expect(readFileSync(join(root, 'jobs/weekly/report.ts'), 'utf8')).toContain('export default async (');
  });

  test.each([
    ['hourly/a.ts', 'jobs/hourly/a.sh exists already, with the name hourly/a; choose another name.'],
    ['hourly/off', 'jobs/hourly/off.sh.disabled exists already, with the name hourly/off; choose another name.'],
    ['houry/x', '"houry" is not a schedule name, so cron would never run it. Did you mean hourly?'],
    ['1hour/x', '"1hour" is not a schedule name, so cron would never run it. Did you mean hourly?'],
    ['deplyo/x', '"deplyo" is not a schedule name, so cron would never run it. Did you mean deploy?'],
    ['publish/x', '"publish" is not a schedule name'],
    ['report/x', 'jobs/report would not be a tier: `npx folder-runner report` is a command. Choose another name.'],
    ['_lib/x', 'jobs/_lib would not be a tier: its name begins with _. Choose another name.'],
    [
      'hourly',
      '`npx folder-runner new` needs <tier>/<name>, such as hourly/import-orders; the tiers here are deploy, hourly.',
    ],
    [
      'weekly',
      '`npx folder-runner new` needs <tier>/<name>, such as weekly/import-orders; the tiers here are deploy, hourly.',
    ],
    ['/etc/x', '`npx folder-runner new` needs <tier>/<name>, such as hourly/x; the tiers here are deploy, hourly.'],
    ['hourly/_x', 'hourly/_x would not be a script: its name begins with _.'],
    ['hourly/a/b', 'A script lies directly in its tier: expected hourly/<name>, found hourly/a/b.'],
    ['hourly/../../x', 'A script lies directly in its tier'],
    ['queue/../x', 'queue/../x is not a name for a script'],
    ['hourly/', 'hourly/ is not a name for a script'],
    ['hourly/ ', 'hourly/  is not a name for a script'],
    ['hourly/x.rb', 'There is no template for .rb; expected ts, sh, php.'],
    ['hourly/x.py', 'There is no template for .py; expected ts, sh, php.'],
    [
      'orders',
      '`npx folder-runner new` needs <tier>/<name>, such as hourly/orders; the tiers here are deploy, hourly.',
    ],
  ])('%s is refused: %s', (name, reason) => {
    const root = makeTemporaryRoot({
      'jobs/hourly/a.sh': 'true',
      'jobs/hourly/off.sh.disabled': '',
      'jobs/deploy/x.sh': '',
    });
    const { status, stdout, stderr } = call(root, ['new', name]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(`runner: ${reason}`);
    expect(readFileSync(join(root, 'jobs/hourly/a.sh'), 'utf8')).toBe('true');
    expect(existsSync(join(root, 'x.ts'))).toBe(false);
  });

  test('a folder that people call by hand takes new scripts once it is there', () => {
    const root = makeTemporaryRoot({ 'jobs/deploy/x.sh': '' });
    expect(call(root, ['new', 'deploy/publish.php']).status).toBe(0);
    expect(call(root, ['new', 'deploy/other.php', '--lang', 'sh']).stderr).toContain(
      '--lang sh does not fit other.php',
    );
  });
});

describe('runner disable', () => {
  const files = {
    'jobs/hourly/a.sh': 'echo a\n',
    'jobs/hourly/folder/index.mjs': 'console.log(1)',
    'jobs/queue/mail/welcome.sh': 'true\n',
  };

  test('a disabled script stays where it is, does not run, and is told of everywhere', () => {
    const root = makeTemporaryRoot(files);
    call(root, ['run', 'hourly/a']);
    const { status, stdout } = call(root, ['disable', 'a', 'folder', 'mail/welcome']);
    expect(status).toBe(0);
    expect(stdout).toContain('hourly/a is disabled: its file is now jobs/hourly/a.sh.disabled.');
    expect(stdout).toContain('hourly/folder is disabled: its file is now jobs/hourly/folder.disabled.');
    expect(call(root, ['hourly'])).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(call(root, ['report']).stdout).toMatch(/a \(disabled\) .*1 {5}100%/);
    expect(call(root, ['list']).stdout).toContain(
      'disabled · 3 scripts · `npx folder-runner enable <script>` ends it\n  hourly/a · jobs/hourly/a.sh.disabled\n',
    );
    expect(call(root, ['why', 'a']).stdout).toContain(
      'It does not run because it is disabled: `npx folder-runner enable hourly/a` ends that.',
    );
    expect(call(root, ['status']).stdout).toContain(
      'disabled\n  hourly/a · `npx folder-runner enable hourly/a` ends it\n',
    );
    expect(JSON.parse(call(root, ['list', '--json']).stdout)).toMatchObject({
      ignored: [],
      disabled: [{ script: 'hourly/a' }, { script: 'hourly/folder' }, { script: 'queue/mail/welcome' }],
    });
    for (const name of ['hourly/a', 'a']) {
      expect(call(root, ['run', name])).toMatchObject({
        status: 2,
        stderr: 'runner: hourly/a is disabled: `npx folder-runner enable hourly/a` ends that.\n',
      });
    }
  });

  test('a name with spaces is quoted in the commands that are told', () => {
    const root = makeTemporaryRoot();
    expect(call(root, ['new', 'hourly/two words.sh']).stdout).toContain(`  npx folder-runner run 'hourly/two words'\n`);
    expect(call(root, ['disable', 'two words']).stdout).toContain(
      `\`npx folder-runner enable 'hourly/two words'\` ends that.`,
    );
    expect(call(root, ['status']).stdout).toContain(`\`npx folder-runner enable 'hourly/two words'\` ends it`);
    expect(call(root, ['why', 'two words']).stdout).toContain(
      `\`npx folder-runner enable 'hourly/two words'\` ends that.`,
    );
  });

  test('an enabled one runs again, under its name', () => {
    const root = makeTemporaryRoot(files);
    call(root, ['disable', 'jobs/hourly/a.sh', 'folder']);
    const { stdout } = call(root, ['enable', 'jobs/hourly/a.sh', 'hourly/folder']);
    expect(stdout).toContain(
      'hourly/a is enabled: its file is jobs/hourly/a.sh again, and the next pass of hourly runs it.',
    );
    expect(existsSync(join(root, 'jobs/hourly/folder/index.mjs'))).toBe(true);
    expect(call(root, ['run', 'hourly/a']).status).toBe(0);
    expect(call(root, ['enable', 'a']).stdout).toMatch(/^hourly\/a is not disabled\./);
  });

  test.each(['disable', 'enable'])('%s takes no tier, and says what stops one', (command) => {
    const root = makeTemporaryRoot({ ...files, 'jobs/daily/.keep': '' });
    expect(call(root, [command, 'hourly'])).toEqual({
      status: 2,
      stdout: '',
      stderr:
        'runner: "hourly" is a tier, not a script: name one of its scripts, such as hourly/a. ' +
        '`npx folder-runner pause hourly` stops all of them.\n',
    });
    expect(call(root, [command, 'daily']).stderr).toContain(
      'such as daily/import-orders. `npx folder-runner pause daily` stops',
    );
  });

  test('a name that is near to one is a hint, one of several scripts is ambiguous', () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/import-orders.sh': '', 'jobs/daily/import-orders.sh': '' });
    expect(call(root, ['disable', 'hourly/import-order']).stderr).toContain('did you mean hourly/import-orders?');
    expect(call(root, ['disable', 'import-orders']).stderr).toContain(
      '"import-orders" is ambiguous (2 matches): hourly/import-orders, daily/import-orders.',
    );
  });

  test('nothing is renamed where one of the names is wrong, or over a file that is there', () => {
    const root = makeTemporaryRoot({ ...files, 'jobs/hourly/a.sh.disabled': 'older' });
    expect(call(root, ['disable', 'folder', 'b']).status).toBe(2);
    expect(existsSync(join(root, 'jobs/hourly/folder'))).toBe(true);
    expect(call(root, ['disable', 'hourly/a'])).toMatchObject({
      status: 2,
      stderr: 'runner: jobs/hourly/a.sh.disabled exists already; remove it, or a.sh.\n',
    });
    chmodSync(join(root, 'jobs/hourly/a.sh.disabled'), 0o600);
    expect(readFileSync(join(root, 'jobs/hourly/a.sh.disabled'), 'utf8')).toBe('older');
  });
});
