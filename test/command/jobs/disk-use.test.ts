import { linkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Ended } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runShippedJob } from '../../support/run.ts';

const measure = (root: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('hourly/disk-use.ts', root, variables);

const megabytes = (count: number): string => 'x'.repeat(count * 1024 * 1024);

const makeFilled = (): string =>
  makeTemporaryRoot({ 'large/deep/a': megabytes(3), 'large/b': megabytes(1), 'small/c': megabytes(1) });

/** Without what folders themselves take, which differs between disks. */
const megabytesOf = (stdout: string, name: string): number => {
  const line = stdout.split('\n').find((each) => each.endsWith(`  ${name}`)) ?? '';
  return Math.round(Number(/([\d.]+) MB/.exec(line)?.[1]));
};

test('without a quota it shows what each folder takes, the largest first, and succeeds', async () => {
  const { status, stdout } = await measure(makeFilled());
  expect(status).toBe(0);
  expect(stdout).toMatch(/ large\n.* small\n/);
  expect(megabytesOf(stdout, 'large')).toBe(4);
  expect(megabytesOf(stdout, 'small')).toBe(1);
  expect(stdout).toMatch(/5\.\d MB {2}in all, in \//);
  expect(stdout).toMatch(/set DISK_QUOTA/);
});

test('a file with two names counts once, and links do not count', async () => {
  const root = makeFilled();
  linkSync(join(root, 'small/c'), join(root, 'small/again'));
  symlinkSync(join(root, 'large'), join(root, 'small/link'));
  symlinkSync('/', join(root, 'link-to-all'));
  const { stdout } = await measure(root);
  expect(megabytesOf(stdout, 'small')).toBe(1);
});

test('below the warning it succeeds and tells the share', async () => {
  const { status, stdout } = await measure(makeFilled(), { DISK_QUOTA: '10mb' });
  expect(status).toBe(0);
  expect(stdout).toMatch(/5\.\d MB of 10\.0 MB used, 5\d\.\d %\n/);
});

test('at the warning it fails with the figures and the largest folder', async () => {
  const { status, stderr } = await measure(makeFilled(), { DISK_QUOTA: '10 MB', DISK_WARN_PERCENT: '50' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/5\.\d MB of 10\.0 MB used, 5\d\.\d %: .* largest folder is large\./);
});

test('another folder can be measured, also through a link', async () => {
  const root = makeFilled();
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
  const { status, stderr } = await measure(makeFilled(), variables as Record<string, string>);
  expect(status).toBe(1);
  expect(stderr).toContain(message);
});
