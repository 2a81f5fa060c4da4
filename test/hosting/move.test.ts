import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type FakeCrontab, makeFakeCrontab } from '../support/fake-crontab.ts';
import { queryLog } from '../support/open-log.ts';
import { commandPath, type Ended, runCommand } from '../support/run-command.ts';
import { startCommand } from '../support/start-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { until } from '../support/until.ts';

const files = { 'jobs/hourly/a.sh': 'echo a\n', 'jobs/daily/b.sh': 'echo b\n' };

function call(root: string, crontab: FakeCrontab, ...args: readonly string[]): Ended {
  return runCommand(args, { cwd: root, env: crontab.env });
}

/** Beside the root; gone after the test. */
function placeBeside(root: string): string {
  const place = join(dirname(root), `moved-${process.pid}-${root.slice(-6)}`);
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  return place;
}

const linesOf = (crontab: FakeCrontab): string[] =>
  String(crontab.read() ?? '')
    .split('\n')
    .filter((line) => /^\S+ \S+ \* \* \*/.test(line));

test('a root moves with its log and its crontab lines, and all else in the crontab stays', () => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  crontab.write('0 1 * * * mine\n');
  call(root, crontab, 'hourly');
  call(root, crontab, 'cron', '--install', '--work', '5m');
  crontab.write(String(crontab.read()).replace(/^\d+( \* \* \* \*) sh/m, '41$1 nice -n 19 sh'));
  writeFileSync(join(root, 'jobs/daily/b.sh'), `cat ${root}/data\n`);
  const timesOf = () => linesOf(crontab).map((line) => line.split(root)[0]?.split(placeBeside(root))[0]);
  const times = timesOf();
  const target = placeBeside(root);
  const { status, stdout, stderr } = call(root, crontab, 'move', target);
  expect(status).toBe(0);
  expect(stderr).toBe(`Note: ${target}/jobs/daily/b.sh still names ${root}: correct that path.\n`);
  expect(stdout).toContain(
    `${root} is now ${target}.\nIts crontab lines name the new folder now, and keep their times.\n`,
  );
  expect(timesOf()).toEqual(times);
  writeFileSync(join(target, 'jobs/daily/b.sh'), 'echo b\n');
  expect(existsSync(root)).toBe(false);
  const text = String(crontab.read());
  expect(text).toMatch(/^0 1 \* \* \* mine$/m);
  expect(text).not.toContain(`${root} `);
  expect(linesOf(crontab)).toHaveLength(4);
  expect(text).toContain(` work ${target} --for`);
  expect(call(target, crontab, 'hourly').status).toBe(0);
  expect(queryLog(target, `select count(*) as runs from runs where outcome = 'succeeded'`)).toEqual([{ runs: 2 }]);
});

test('lines for some tiers, or one for all that are due, stay such lines', () => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  call(root, crontab, 'cron', '--install', '--tiers', 'daily');
  const target = placeBeside(root);
  expect(call(root, crontab, 'move', target).status).toBe(0);
  expect(linesOf(crontab).map((line) => line.split(' ').at(-2))).toEqual(['daily']);
  expect(String(crontab.read())).toContain('--install --tiers daily`');
  call(target, crontab, 'cron', '--install', '--due', '--budget', '55s');
  expect(call(target, crontab, 'move', root).status).toBe(0);
  expect(linesOf(crontab).map((line) => line.split('/cron ')[1])).toEqual([`due ${root} --budget 55s`]);
});

test.each<[string, (root: string) => string, RegExp]>([
  ['into itself', (root) => join(root, 'x'), /is inside the root; name a folder outside it/],
  ['to where something is', (root) => root.replace(/[^/]+$/, ''), /exists already/],
  ['to nowhere', (root) => join(root, '../missing/x'), /There is no folder .*missing; make it first/],
  [
    'into a web root',
    (root) => join(root, '../public_html-x/public_html/x'),
    /There is no folder|a web server probably serves/,
  ],
])('a root does not move %s', (_, targetOf, reason) => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  const { status, stdout, stderr } = call(root, crontab, 'move', targetOf(root));
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toMatch(reason);
  expect(existsSync(join(root, 'jobs/hourly/a.sh'))).toBe(true);
});

test('uninstall takes the lines out, keeps all files and names them', () => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  crontab.write('0 1 * * * mine\n');
  call(root, crontab, 'hourly');
  call(root, crontab, 'cron', '--install');
  const { status, stdout, stderr } = call(root, crontab, 'uninstall');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toBe(
    `Its lines were removed from your crontab.\nKept in ${root}: jobs, runner.config.*, .runner.\n` +
      'Next: npm uninstall folder-runner\n',
  );
  expect(String(crontab.read())).toBe('0 1 * * * mine\n');
  expect(existsSync(join(root, '.runner/activity.db'))).toBe(true);
});

test('uninstall --purge removes the state folder, and nothing else', () => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  call(root, crontab, 'hourly');
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
])('on a terminal uninstall --purge asks first: %s', (_, typed, { args = [], status, isAsked = true }) => {
  const root = realpathSync(makeTemporaryRoot(files));
  const crontab = makeFakeCrontab();
  call(root, crontab, 'hourly');
  call(root, crontab, 'cron', '--install');
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

test('nothing moves and nothing is removed while a pass runs, or while the crontab cannot be read', async () => {
  const root = realpathSync(
    makeTemporaryRoot({ ...files, 'jobs/hourly/wait.sh': 'until [ -e go ]; do sleep 0.02; done\n' }),
  );
  const crontab = makeFakeCrontab();
  const pass = startCommand(['--root', root, 'hourly'], { cwd: root, env: crontab.env });
  await until('it runs', () => call(root, crontab, 'status').stdout.includes('hourly/wait · for'));
  for (const args of [
    ['move', placeBeside(root)],
    ['uninstall', '--purge'],
  ]) {
    expect(call(root, crontab, ...args)).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^runner: Not now: a pass of hourly/),
    });
  }
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
