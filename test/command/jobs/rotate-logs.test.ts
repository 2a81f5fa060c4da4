import {
  appendFileSync,
  chmodSync,
  closeSync,
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
