import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callCommand, commandPath, type Ended, runCommand, startCommand } from '../../support/command.ts';
import { type FakeCrontab, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { writeLog } from '../../support/written-log.ts';

test('the line for all tiers says when those begin that were never called', async () => {
  const script = 'exit 0\n';
  const root = makeTemporaryRoot({
    'jobs/daily/a.sh': script,
    'jobs/monthly/a.sh': script,
    'jobs/by-hand/a.sh': script,
  });
  const place = { cwd: root, env: { ...makeFakeCrontab().env, TZ: 'UTC' } };
  const install = async (...args: string[]) => (await callCommand(['cron', '--install', ...args], place)).stdout;
  expect(await install('--due')).toMatch(
    /\nTiers that were never called begin with their next period: daily \d+ \w+ \d\d:\d\d, monthly (?:1 \w+ \d\d:\d\d|\d{4}-01-01)\.\n/,
  );
  const log = await writeLog(root);
  await log.addPass('monthly', Date.now());
  expect(await install('--due')).toMatch(
    /\nTiers that were never called begin with their next period: daily [^,]+\.\n/,
  );
  expect(await install('--tiers', 'daily,monthly')).not.toContain('never called');
});

const files = { 'jobs/hourly/a.sh': 'echo a\n', 'jobs/daily/b.sh': 'echo b\n' };

function call(root: string, crontab: FakeCrontab, ...args: readonly string[]): Ended {
  return runCommand(args, { cwd: root, env: crontab.env });
}

/** A root with a log, and with its lines below another one. */
async function makeInstalled() {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  crontab.write('0 1 * * * mine\n');
  const place = { cwd: root, env: crontab.env };
  await callCommand(['pause', 'daily'], place);
  await callCommand(['cron', '--install'], place);
  expect(String(crontab.read())).toContain(' hourly ');
  return { root, crontab };
}

test('uninstall takes the lines out, keeps all files and names them', async () => {
  const { root, crontab } = await makeInstalled();
  const { status, stdout, stderr } = call(root, crontab, 'uninstall');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toBe(
    `Its lines were removed from your crontab.\nKept in ${root}: jobs, runner.config.*, .runner.\n` +
      'Next: npm uninstall folder-runner\n',
  );
  expect(String(crontab.read())).toBe('0 1 * * * mine\n');
  expect(existsSync(join(root, '.runner/activity.db'))).toBe(true);
});

test('uninstall --purge removes the state folder, and nothing else', async () => {
  const { root, crontab } = await makeInstalled();
  const { status, stdout } = call(root, crontab, 'uninstall', '--purge');
  expect(status).toBe(0);
  expect(stdout).toContain(`Removed: ${join(root, '.runner')}.\n`);
  expect(readdirSync(root)).toEqual(['jobs']);
});

const hasScript = spawnSync('script', ['--version']).status === 0;

test.runIf(hasScript).each<[string, string, { args?: string[]; status: number; isAsked?: false }]>([
  ['n', 'n\n', { status: 1 }],
  ['only Enter', '\n', { status: 1 }],
  ['the end of the input', '\x04', { status: 1 }],
  ['y', 'y\n', { status: 0 }],
  ['nothing, with --yes', '', { args: ['--yes'], status: 0, isAsked: false }],
])('on a terminal uninstall --purge asks first: %s', async (_, typed, { args = [], status, isAsked = true }) => {
  const { root, crontab } = await makeInstalled();
  const before = String(crontab.read());
  const inside = [process.execPath, commandPath, 'uninstall', '--purge', ...args].join(' ');
  const ended = spawnSync('script', ['-qec', inside, '/dev/null'], {
    cwd: root,
    env: crontab.env,
    input: typed,
    encoding: 'utf8',
    timeout: 30_000,
  });
  expect({ status: ended.status, isAsked: ended.stdout.includes('[y/N]') }).toEqual({ status, isAsked });
  expect(existsSync(join(root, '.runner/activity.db'))).toBe(status === 1);
  expect(String(crontab.read()) === before).toBe(status === 1);
  expect(ended.stdout.includes('Nothing was removed.')).toBe(status === 1);
});

test('nothing is removed while a pass runs, or while the crontab cannot be read', async () => {
  const root = realpathSync(
    makeTemporaryRoot({ ...files, 'jobs/hourly/wait.sh': 'until [ -e go ]; do sleep 0.02; done\n' }),
  );
  const crontab = makeFakeCrontab();
  const pass = startCommand(['--root', root, 'hourly'], { cwd: root, env: crontab.env });
  await until('it runs', () => call(root, crontab, 'status').stdout.includes('hourly/wait · for'));
  expect(call(root, crontab, 'uninstall', '--purge')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^runner: Not now: a pass of hourly/),
  });
  writeFileSync(join(root, 'go'), '');
  expect((await pass.ended).status).toBe(0);
  const broken = makeFakeCrontab('#!/bin/sh\necho "cannot connect" >&2; exit 1\n');
  expect(call(root, broken, 'uninstall', '--purge').status).toBe(2);
  expect(existsSync(join(root, '.runner/activity.db'))).toBe(true);
  const { status, stderr } = call(root, broken, 'uninstall');
  expect(status).toBe(0);
  expect(stderr).toContain('Note: the crontab could not be read.');
  expect(readFileSync(join(root, 'jobs/hourly/a.sh'), 'utf8')).toBe('echo a\n');
});
