import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { checkCopy, checkPlace, checkWritable } from '../../../src/settings/access.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { findRoot, type RootSearch } from '../../../src/system/place/root.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { findWebRoot } from '../../../src/system/place/web-exposure.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

function check(root: string, allowUnsafe = false): void {
  checkPlace(root, stateFolderOf(root), { ...defaultSettings, allowUnsafe });
}

describe('a root', () => {
  test('without a state folder is fine: there will be one', () => {
    expect(() => check(makeTemporaryRoot())).not.toThrow();
  });

  test('inside a web root is refused with the cure, also behind a link, unless it is forced', () => {
    const home = makeTemporaryRoot({ 'domains/a.org/public_html/tools/jobs/hourly/a.sh': '' });
    const root = join(home, 'domains/a.org/public_html/tools');
    symlinkSync(root, join(home, 'tools'));
    for (const path of [root, join(home, 'tools')]) {
      expect(() => check(path)).toThrow(UsageError);
      expect(() => check(path)).toThrow(
        `${path} is inside ${home}/domains/a.org/public_html, which a web server probably serves`,
      );
      expect(() => check(path)).toThrow(`mv ${path} ~/runner`);
      expect(() => check(path)).toThrow(/allowUnsafe: true .* or RUNNER_ALLOW_UNSAFE=1/);
      expect(() => check(path, true)).not.toThrow();
    }
  });
});

describe('a state folder', () => {
  test('of one’s own that is too open is closed, and nothing is said', () => {
    const root = makeTemporaryRoot();
    const state = stateFolderOf(root);
    createStateFolder(state);
    chmodSync(state.path, 0o777);
    check(root);
    createStateFolder(state);
    expect(statSync(state.path).mode & 0o777).toBe(0o700);
  });

  test('is refused when others could have put something in', () => {
    const root = makeTemporaryRoot();
    const state = stateFolderOf(root);
    createStateFolder(state);
    writeFileSync(state.database, '');
    chmodSync(state.database, 0o666);
    check(root);
    chmodSync(state.path, 0o777);
    expect(() => check(root)).toThrow(
      '.runner/activity.db can be written by anybody (mode 0666); close it with: chmod go-w .runner/activity.db, or allow it',
    );
    expect(() => check(root, true)).not.toThrow();
  });

  test('that was copied may hold links that lead nowhere, or in a circle', () => {
    const root = makeTemporaryRoot();
    const state = stateFolderOf(root);
    createStateFolder(state);
    symlinkSync('nowhere', join(state.path, 'left'));
    symlinkSync('circle', join(state.path, 'circle'));
    chmodSync(state.path, 0o775);
    expect(() => check(root)).not.toThrow();
  });

  test('may be a link to a folder that only its owner can write', () => {
    const root = makeTemporaryRoot();
    const disk = makeTemporaryRoot();
    mkdirSync(join(disk, 'state'), { mode: 0o700 });
    symlinkSync(join(disk, 'state'), join(root, '.runner'));
    expect(() => check(root)).not.toThrow();
    chmodSync(join(disk, 'state'), 0o777);
    expect(() => check(root)).toThrow(`chmod go-w ${join(disk, 'state')}`);
  });
});

/** A site with a root beside its web root, and the state of that root in there. */
function makeSite() {
  const home = makeTemporaryRoot({ 'public_html/st/locks/x': '', 'app/jobs/hourly/a.sh': '' });
  const root = join(home, 'app');
  symlinkSync('../public_html/st', join(root, '.runner'));
  return { home, root, state: stateFolderOf(root) };
}

test('a state folder that is a link into a web root is refused, with the command that ends it', () => {
  const { home, root } = makeSite();
  expect(() => check(root)).toThrow(
    `${root}/.runner leads into ${home}/public_html, which a web server probably serves`,
  );
  expect(() => check(root)).toThrow(
    `with: rm ${root}/.runner && mv ${home}/public_html/st ${root}/.runner, or allow it with`,
  );
  expect(() => check(root, true)).not.toThrow();
});

describe('what writes the log', () => {
  test('is refused in a web root, unless the settings or the environment allow it', async () => {
    const { home, root, state } = makeSite();
    const served = join(home, 'public_html');
    mkdirSync(join(served, 'jobs'));
    for (const [place, its] of [
      [root, state],
      [served, stateFolderOf(served)],
    ] as const) {
      await expect(checkWritable(place, its, {})).rejects.toThrow('public_html, which a web server');
      await checkWritable(place, its, { RUNNER_ALLOW_UNSAFE: '1' });
      writeFileSync(join(place, 'runner.config.json'), '{"allowUnsafe": true}');
      await checkWritable(place, its, {});
    }
  });

  test('does not need right settings elsewhere', async () => {
    const root = makeTemporaryRoot({ 'runner.config.json': '{"concurrency": "many"}' });
    await checkWritable(root, stateFolderOf(root), {});
  });
});

test('a copy of the log is refused in a web root, also behind a link, unless it is allowed', async () => {
  const { home, root } = makeSite();
  symlinkSync(join(home, 'public_html'), join(home, 'site'));
  for (const folder of ['public_html', 'public_html/st', 'site']) {
    const path = join(home, folder, 'x.db');
    await expect(checkCopy(root, path, {})).rejects.toThrow(
      `${path} is inside ${home}/public_html, which a web server probably serves`,
    );
    await checkCopy(root, path, { RUNNER_ALLOW_UNSAFE: '1' });
  }
  // Only its folder counts: a file may be called as it likes.
  await checkCopy(root, join(home, 'www'), {});
});

function makeFolderWithoutJobs(): string {
  const folder = mkdtempSync(join(tmpdir(), 'runner-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function search(changes: Partial<RootSearch>): string {
  return findRoot({ option: undefined, variable: undefined, cwd: '/', ...changes });
}

test('--root wins over RUNNER_ROOT and the current folder', () => {
  const [root, other] = [makeTemporaryRoot(), makeTemporaryRoot()];
  expect(search({ option: root, variable: other, cwd: other })).toBe(root);
});

test('RUNNER_ROOT wins over the current folder', () => {
  const [root, other] = [makeTemporaryRoot(), makeTemporaryRoot()];
  expect(search({ variable: root, cwd: other })).toBe(root);
});

test('a relative --root counts from the current folder', () => {
  const root = makeTemporaryRoot();
  expect(search({ option: '..', cwd: join(root, 'jobs') })).toBe(root);
});

test('an empty RUNNER_ROOT is none', () => {
  const root = makeTemporaryRoot();
  expect(search({ variable: '', cwd: root })).toBe(root);
});

test('without either, the nearest folder upward with jobs is the root', () => {
  const root = makeTemporaryRoot();
  const deep = join(root, 'jobs', 'hourly', 'deep');
  mkdirSync(deep, { recursive: true });
  expect(search({ cwd: deep })).toBe(root);
});

test('a file called jobs makes no root', () => {
  const root = makeTemporaryRoot();
  const inside = join(root, 'inside');
  mkdirSync(inside);
  writeFileSync(join(inside, 'jobs'), '');
  expect(search({ cwd: inside })).toBe(root);
});

test('no root anywhere is wrong use, with the cure', () => {
  const cwd = makeFolderWithoutJobs();
  expect(() => search({ cwd })).toThrow(UsageError);
  expect(() => search({ cwd })).toThrow(
    `No jobs folder in ${cwd} or above it. Create one with \`npx folder-runner init\`, or name the folder that contains it with --root or RUNNER_ROOT.`,
  );
});

test.each([
  ['--root', 'option'],
  ['RUNNER_ROOT', 'variable'],
])('%s without a jobs folder is wrong use, and nothing else is taken', (name, key) => {
  const [folder, cwd] = [makeFolderWithoutJobs(), makeTemporaryRoot()];
  expect(() => search({ [key]: folder, cwd })).toThrow(
    new UsageError(
      `${name} names ${folder}, which has no jobs folder. Create one there with \`npx folder-runner init\`.`,
    ),
  );
});

test.each([
  ['/home/me/public_html', '/home/me/public_html'],
  ['/home/me/public_html/tools/runner', '/home/me/public_html'],
  ['/var/www/vhosts/example.org/httpdocs/x', '/var/www/vhosts/example.org/httpdocs'],
  ['/homez.1/me/www/runner', '/homez.1/me/www'],
  ['/srv/htdocs/x', '/srv/htdocs'],
  ['/var/www/html/runner', '/var/www'],
  ['/var/www/clients/client1/web1/web/x', '/var/www'],
])('%s is inside %s', (path, webRoot) => {
  expect(findWebRoot(path)).toBe(webRoot);
});

test.each([
  '/home/me/runner',
  '/var/www/vhosts/example.org/runner',
  '/var/www/example.org/private/runner',
  '/var/www/clients/client1/web1/private/runner',
  '/home/www-data/runner',
  '/home/me/my_public_html',
  '/',
])('%s is in no web root', (path) => {
  expect(findWebRoot(path)).toBeNull();
});
