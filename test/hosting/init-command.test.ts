import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Ended, runCommand } from '../support/run-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const init = (cwd: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Ended =>
  runCommand(['init', ...args], { cwd, env: { HOME: cwd, PATH: '/usr/bin:/bin', ...env } });

test('init tells what it made and what to do next', () => {
  const root = makeTemporaryRoot();
  const { status, stdout, stderr } = init(root);
  expect(status).toBe(0);
  expect(stdout).toMatch(/ made +jobs\/hourly\n +made +jobs\/hourly\/clean-temporary-files\.ts\n/);
  expect(stdout).toMatch(/Next:[\s\S]*npx runner hourly[\s\S]*npx runner cron --install/);
  expect(stderr).toBe('');
});

test('the made root runs at once: its examples succeed without being set up', () => {
  const root = makeTemporaryRoot();
  init(root);
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  for (const tier of ['15min', 'hourly', 'daily']) {
    expect(runCommand([tier], { cwd: root, env })).toEqual({ status: 0, stdout: '', stderr: '' });
  }
});

test('init a second time says that all is there already', () => {
  const root = makeTemporaryRoot();
  init(root);
  const { status, stdout } = init(root);
  expect(status).toBe(0);
  expect(stdout).not.toMatch(/ made /);
  expect(stdout).toContain('already there  jobs/hourly');
});

test('the folder may be an argument, --root or RUNNER_ROOT, in this order', () => {
  const root = makeTemporaryRoot();
  init(root, ['a', '--root', 'b'], { RUNNER_ROOT: join(root, 'c') });
  init(root, ['--root', 'd'], { RUNNER_ROOT: join(root, 'c') });
  init(root, [], { RUNNER_ROOT: join(root, 'e') });
  const made = ['a', 'b', 'c', 'd', 'e'].filter((name) =>
    existsSync(join(root, name, 'jobs/15min')),
  );
  expect(made).toEqual(['a', 'd', 'e']);
});

test('inside a web root nothing is made, also behind a link, unless it is forced', () => {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, 'public_html'));
  symlinkSync('public_html', join(root, 'site'));
  for (const folder of ['public_html/runner', 'site/new', 'site']) {
    const { status, stdout, stderr } = init(root, [folder]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(
      /is inside .*public_html, .*anybody could read your scripts.* --force\n$/,
    );
    expect(existsSync(join(root, folder, 'jobs'))).toBe(false);
    const forced = init(root, [folder, '--force']);
    expect(forced.status).toBe(0);
    expect(forced.stderr).toMatch(/Danger: .*public_html, .*Passes are refused until/);
    expect(existsSync(join(root, folder, 'jobs/hourly'))).toBe(true);
  }
  expect(runCommand(['hourly'], { cwd: join(root, 'site'), env: {} }).stderr).toMatch(
    /public_html, .*move it beside that folder/,
  );
  expect(existsSync(join(root, 'public_html/runner/.runner/.htaccess'))).toBe(true);
});

test('a place where nothing can be made is told in a sentence, with exit code 2', () => {
  const root = makeTemporaryRoot({ taken: 'a file' });
  const { status, stderr } = init(root, ['taken']);
  expect(status).toBe(2);
  expect(stderr).toMatch(/could not be made.*a file is where a folder is needed/);
});
