import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createStateFolder, stateFolderOf } from '../../src/config/state-folder.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

test('the state folder lies in the root, and knowing where makes nothing', () => {
  const root = makeTemporaryRoot();
  const folder = stateFolderOf(root);
  expect(folder.path).toBe(join(root, '.runner'));
  expect(
    Object.values(folder).every((path) => path === folder.path || dirname(path) === folder.path),
  ).toBe(true);
  expect(existsSync(folder.path)).toBe(false);
});

test.each([0o000, 0o022])("its folders are its owner's alone, even with umask %o", (umask) => {
  const before = process.umask(umask);
  onTestFinished(() => void process.umask(before));
  const { database, ...folders } = stateFolderOf(makeTemporaryRoot());
  createStateFolder({ database, ...folders });
  for (const path of Object.values(folders)) expect(statSync(path).mode & 0o777).toBe(0o700);
  expect(existsSync(database)).toBe(false);
});

test('making it again changes nothing', () => {
  const folder = stateFolderOf(makeTemporaryRoot());
  createStateFolder(folder);
  createStateFolder(folder);
  expect(existsSync(folder.locks)).toBe(true);
});
