import { existsSync, linkSync, mkdirSync, readdirSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Ended } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runShippedJob } from '../../support/run.ts';

const clean = (root: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('hourly/clean-temporary-files.ts', root, variables);

const makeOlder = (path: string, days: number): void => {
  const time = Date.now() / 1000 - days * 86_400;
  utimesSync(path, time, time);
};

const makeFilled = (): { root: string; folder: string } => {
  const root = makeTemporaryRoot({
    'home/x': '',
    'tmp/old': 'x'.repeat(2_000_000),
    'tmp/new': 'new',
    'tmp/deep/er/old': 'old',
    'tmp/deep/er/new': 'new',
  });
  for (const name of ['old', 'deep/er/old']) makeOlder(join(root, 'tmp', name), 8);
  makeOlder(join(root, 'tmp/deep/er/new'), 6);
  return { root, folder: join(root, 'tmp') };
};

test('without a folder it does nothing and says what to set', async () => {
  const { status, stdout } = await clean(makeFilled().root);
  expect(status).toBe(0);
  expect(stdout).toMatch(/^Nothing is cleaned: set CLEAN_FOLDER .*\n$/);
});

test('it removes files that were unchanged for a week, in all folders, and nothing else', async () => {
  const { root, folder } = makeFilled();
  const { status, stdout, stderr } = await clean(root, { CLEAN_FOLDER: folder });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^Removed 2 files \(2\.0 MB\) older than 7 days from /);
  expect(readdirSync(folder, { recursive: true }).sort()).toEqual(['deep', 'deep/er', 'deep/er/new', 'new']);
});

test('the number of days can be set', async () => {
  const { root, folder } = makeFilled();
  await clean(root, { CLEAN_FOLDER: folder, CLEAN_OLDER_THAN_DAYS: '5.5' });
  expect(existsSync(join(folder, 'deep/er/new'))).toBe(false);
  expect(existsSync(join(folder, 'new'))).toBe(true);
});

test('a dry run names the files and removes none', async () => {
  const { root, folder } = makeFilled();
  const { stdout } = await clean(root, { CLEAN_FOLDER: folder, CLEAN_DRY_RUN: '1' });
  expect(stdout).toContain(join(folder, 'deep/er/old'));
  expect(stdout).toMatch(/Would remove 2 files/);
  expect(existsSync(join(folder, 'old'))).toBe(true);
});

test('links are neither followed nor removed', async () => {
  const { root, folder } = makeFilled();
  mkdirSync(join(root, 'precious'));
  linkSync(join(folder, 'old'), join(root, 'precious/data'));
  symlinkSync(join(root, 'precious'), join(folder, 'link-to-folder'));
  symlinkSync(join(root, 'precious/data'), join(folder, 'link-to-file'));
  await clean(root, { CLEAN_FOLDER: folder });
  expect(existsSync(join(root, 'precious/data'))).toBe(true);
  expect(readdirSync(folder)).toEqual(expect.arrayContaining(['link-to-folder', 'link-to-file']));
});

test.each([
  ['/', /belongs to the system/],
  ['/etc', /belongs to the system/],
  ['/usr/share', /belongs to the system/],
  ['home', /holds your home folder/],
  ['.', /holds your (home folder|jobs)/],
  ['link-to-home', /holds your home folder/],
  ['jobs/hourly', /is part of jobs/],
  ['.runner', /is part of \.runner/],
  ['public_html', /holds a whole web site/],
])('%s is refused, and nothing is removed', async (folder, reason) => {
  const root = makeTemporaryRoot({ 'home/old': '', 'jobs/hourly/old': '', '.runner/old': '', 'public_html/old': '' });
  symlinkSync('home', join(root, 'link-to-home'));
  for (const name of ['home', 'jobs/hourly', '.runner', 'public_html']) {
    makeOlder(join(root, name, 'old'), 99);
  }
  const { status, stderr } = await clean(root, {
    CLEAN_FOLDER: folder.startsWith('/') ? folder : join(root, folder),
    // Should the refusal ever fail, the machine that runs the test survives.
    CLEAN_DRY_RUN: folder.startsWith('/') ? '1' : '',
  });
  expect(status).toBe(1);
  expect(stderr).toMatch(reason);
  expect(existsSync(join(root, 'home/old'))).toBe(true);
  expect(existsSync(join(root, 'public_html/old'))).toBe(true);
});

test('a folder that is no full path or is not there, and a wrong number, are errors', async () => {
  const { root, folder } = makeFilled();
  const relative = await clean(root, { CLEAN_FOLDER: 'tmp' });
  expect(relative).toMatchObject({ status: 1, stderr: expect.stringContaining('a full path') });
  const missing = await clean(root, { CLEAN_FOLDER: join(root, 'nowhere') });
  expect(missing).toMatchObject({ status: 1, stderr: expect.stringContaining('nowhere') });
  for (const days of ['0', '-1', 'week']) {
    const wrong = await clean(root, { CLEAN_FOLDER: folder, CLEAN_OLDER_THAN_DAYS: days });
    expect(wrong.stderr).toContain('CLEAN_OLDER_THAN_DAYS must be a number of days above 0');
  }
  expect(existsSync(join(folder, 'old'))).toBe(true);
});
