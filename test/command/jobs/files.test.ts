import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import type { Ended } from '../../support/command.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';
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

const measure = (root: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('hourly/disk-use.ts', root, variables);

const megabytes = (count: number): string => 'x'.repeat(count * 1024 * 1024);

const makeMeasured = (): string =>
  makeTemporaryRoot({ 'large/deep/a': megabytes(3), 'large/b': megabytes(1), 'small/c': megabytes(1) });

/** Without what folders themselves take, which differs between disks. */
const megabytesOf = (stdout: string, name: string): number => {
  const line = stdout.split('\n').find((each) => each.endsWith(`  ${name}`)) ?? '';
  return Math.round(Number(/([\d.]+) MB/.exec(line)?.[1]));
};

test('without a quota it shows what each folder takes, the largest first, and succeeds', async () => {
  const { status, stdout } = await measure(makeMeasured());
  expect(status).toBe(0);
  expect(stdout).toMatch(/ large\n.* small\n/);
  expect(megabytesOf(stdout, 'large')).toBe(4);
  expect(megabytesOf(stdout, 'small')).toBe(1);
  expect(stdout).toMatch(/5\.\d MB {2}in all, in \//);
  expect(stdout).toMatch(/set DISK_QUOTA/);
});

test('a file with two names counts once, and links do not count', async () => {
  const root = makeMeasured();
  linkSync(join(root, 'small/c'), join(root, 'small/again'));
  symlinkSync(join(root, 'large'), join(root, 'small/link'));
  symlinkSync('/', join(root, 'link-to-all'));
  const { stdout } = await measure(root);
  expect(megabytesOf(stdout, 'small')).toBe(1);
});

test('below the warning it succeeds and tells the share', async () => {
  const { status, stdout } = await measure(makeMeasured(), { DISK_QUOTA: '10mb' });
  expect(status).toBe(0);
  expect(stdout).toMatch(/5\.\d MB of 10\.0 MB used, 5\d\.\d %\n/);
});

test('at the warning it fails with the figures and the largest folder', async () => {
  const { status, stderr } = await measure(makeMeasured(), { DISK_QUOTA: '10 MB', DISK_WARN_PERCENT: '50' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/5\.\d MB of 10\.0 MB used, 5\d\.\d %: .* largest folder is large\./);
});

test('another folder can be measured, also through a link', async () => {
  const root = makeMeasured();
  symlinkSync('small', join(root, 'link'));
  const { stdout } = await measure(root, { DISK_FOLDER: join(root, 'link') });
  expect(megabytesOf(stdout, 'c')).toBe(1);
});

test.each([
  [{ DISK_QUOTA: 'much' }, 'DISK_QUOTA must be a size such as 500mb or 10gb, but is "much".'],
  [{ DISK_QUOTA: '0gb' }, 'DISK_QUOTA must be a size'],
  [{ DISK_WARN_PERCENT: '101' }, 'DISK_WARN_PERCENT must be a number from 1 to 100'],
  [{ DISK_FOLDER: '/nowhere/at/all' }, "'/nowhere/at/all'"],
])('%j is an error that names it', async (variables, message) => {
  const { status, stderr } = await measure(makeMeasured(), variables as Record<string, string>);
  expect(status).toBe(1);
  expect(stderr).toContain(message);
});

const makeLogs = (content: Readonly<Record<string, FileContent>>): string => {
  const files = Object.entries(content).map(([name, file]) => [`logs/${name}`, file]);
  const logs = join(makeTemporaryRoot(Object.fromEntries(files)), 'logs');
  mkdirSync(logs, { recursive: true });
  return logs;
};

/** Rotates from 1000 bytes on, unless told otherwise. */
const rotate = (logs: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('daily/rotate-logs.ts', join(logs, '..'), {
    ROTATE_FOLDER: logs,
    ROTATE_LARGER_THAN_MB: '0.001',
    ...variables,
  });

const filesLike = (logs: string, form: RegExp): string[] => readdirSync(logs).filter((name) => form.test(name));

const makeIdle = (logs: string, form: RegExp): void => {
  const time = Date.now() / 1000 - 2 * 86_400;
  for (const name of filesLike(logs, form)) utimesSync(join(logs, name), time, time);
};

const stampOf = (daysAgo: number): string =>
  new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');

const large = `${'one line of a log\n'.repeat(200)}`;
const SET_ASIDE = /\.\d{8}-\d{6}$/;
const COMPRESSED = /\.\d{8}-\d{6}\.gz$/;

test('without a folder it does nothing and says what to set', async () => {
  const { status, stdout } = await rotate(makeLogs({}), { ROTATE_FOLDER: '' });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^Nothing is rotated: set ROTATE_FOLDER .*\n$/);
});

test('a large log is set aside whole, and compressed a day after its last line', async () => {
  const logs = makeLogs({ 'site.log': large, error_log: large, 'small.log': 'a', 'a.txt': large });
  const first = await rotate(logs);
  expect(first).toMatchObject({ status: 0, stderr: '' });
  expect(first.stdout).toContain('2 logs rotated, 0 compressed, 0 removed');
  expect(readdirSync(logs)).toEqual([
    'a.txt',
    expect.stringMatching(/^error_log\.\d{8}-\d{6}$/),
    expect.stringMatching(/^site\.log\.\d{8}-\d{6}$/),
    'small.log',
  ]);

  makeIdle(logs, SET_ASIDE);
  const second = await rotate(logs);
  expect(second.stdout).toContain('0 logs rotated, 2 compressed, 0 removed');
  const [archive = ''] = filesLike(logs, /^site.*\.gz$/);
  expect(gunzipSync(readFileSync(join(logs, archive))).toString()).toBe(large);
  expect(filesLike(logs, SET_ASIDE)).toEqual([]);
});

test('a program that keeps its log open loses no line', async () => {
  const logs = makeLogs({ 'app.log': large });
  const log = openSync(join(logs, 'app.log'), 'a');
  onTestFinished(() => closeSync(log));
  await rotate(logs);
  writeSync(log, 'after the rotation\n');
  makeIdle(logs, SET_ASIDE);
  // Idle for long enough, and still open in a process of the same user: this one.
  expect((await rotate(logs)).stdout).toContain('0 compressed');
  const [aside = ''] = filesLike(logs, SET_ASIDE);
  expect(readFileSync(join(logs, aside), 'utf8')).toBe(`${large}after the rotation\n`);
});

test('in copy mode the log is emptied in its place and compressed at once', async () => {
  const logs = makeLogs({ 'app.log': large });
  const log = openSync(join(logs, 'app.log'), 'a');
  onTestFinished(() => closeSync(log));
  const { stdout } = await rotate(logs, { ROTATE_MODE: 'copy' });
  expect(stdout).toContain('1 logs rotated, 1 compressed');
  writeSync(log, 'goes on\n');
  expect(readFileSync(join(logs, 'app.log'), 'utf8')).toBe('goes on\n');
  const [archive = ''] = filesLike(logs, COMPRESSED);
  expect(gunzipSync(readFileSync(join(logs, archive))).toString()).toBe(large);
});

test('a small log is rotated when its last rotation is a week ago, not before', async () => {
  const logs = makeLogs({
    'week.log': 'a line\n',
    [`week.log.${stampOf(8)}.gz`]: '',
    'days.log': 'a line\n',
    [`days.log.${stampOf(6)}.gz`]: '',
    'empty.log': '',
    [`empty.log.${stampOf(99)}.gz`]: '',
  });
  expect((await rotate(logs)).stdout).toContain('1 logs rotated');
  expect(filesLike(logs, SET_ASIDE)).toEqual([expect.stringMatching(/^week\.log\./)]);
});

test('of each log the newest are kept, and files of other names never go', async () => {
  const archives = [5, 4, 3, 2].map((days) => `a.log.${stampOf(days)}.gz`);
  const logs = makeLogs({
    'a.log': 'x',
    ...Object.fromEntries(archives.map((name) => [name, ''])),
    [`b.log.${stampOf(9)}.gz`]: '',
    [`other.txt.${stampOf(9)}.gz`]: '',
    'a.log.1.gz': '',
  });
  const { stdout } = await rotate(logs, { ROTATE_KEEP: '2' });
  expect(stdout).toContain('2 removed');
  expect(filesLike(logs, /^a\.log\.\d{8}/)).toEqual(archives.slice(2));
  expect(filesLike(logs, /^(b|other|a\.log\.1)/)).toHaveLength(3);
});

test('an archive is readable by whom the log was, and nobody else', async () => {
  const logs = makeLogs({ 'secret.log': large });
  chmodSync(join(logs, 'secret.log'), 0o600);
  await rotate(logs, { ROTATE_MODE: 'copy' });
  const [archive = ''] = filesLike(logs, COMPRESSED);
  expect(statSync(join(logs, archive)).mode & 0o777).toBe(0o600);
});

test('what a stopped run left unfinished is cleared away', async () => {
  const logs = makeLogs({ [`a.log.${stampOf(3)}`]: large, [`a.log.${stampOf(3)}.gz.part`]: 'half' });
  makeIdle(logs, SET_ASIDE);
  await rotate(logs);
  expect(readdirSync(logs)).toEqual([expect.stringMatching(COMPRESSED)]);
});

test('links are left alone', async () => {
  const logs = makeLogs({});
  appendFileSync(join(logs, '..', 'precious.log'), large);
  symlinkSync('../precious.log', join(logs, 'link.log'));
  expect((await rotate(logs)).stdout).toContain('0 logs rotated');
  expect(readdirSync(logs)).toEqual(['link.log']);
});

test('the names can be set', async () => {
  const logs = makeLogs({ 'debug.txt': large, 'site.log': large });
  await rotate(logs, { ROTATE_NAMES: '^debug' });
  expect(filesLike(logs, SET_ASIDE)).toEqual([expect.stringMatching(/^debug\.txt\./)]);
  // A name that was set aside matches too, and must not be rotated once more.
  await rotate(logs, { ROTATE_NAMES: '^debug' });
  expect(filesLike(logs, /^debug/)).toHaveLength(1);
});

test.each([
  [{ ROTATE_KEEP: '0' }, 'ROTATE_KEEP must be a number above 0, but is "0".'],
  [{ ROTATE_MODE: 'move' }, 'ROTATE_MODE must be rename or copy, but is "move".'],
  [{ ROTATE_FOLDER: 'logs' }, 'ROTATE_FOLDER must be a full path, but is logs.'],
  [{ ROTATE_NAMES: '(' }, 'Invalid regular expression'],
])('%j is an error that names it, and nothing is touched', async (variables, message) => {
  const logs = makeLogs({ 'site.log': large });
  const { status, stderr } = await rotate(logs, variables as Record<string, string>);
  expect(status).toBe(1);
  expect(stderr).toContain(message);
  expect(readdirSync(logs)).toEqual(['site.log']);
});
