import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  createStateFolder,
  listStateFolders,
  stateFolderOf,
} from '../../src/system/place/state-folder.ts';
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

test.each([0o000, 0o022, 0o177, 0o377, 0o777])(
  "its folders are its owner's alone, even with umask %o",
  (umask) => {
    const { database, reserve, ...folders } = stateFolderOf(makeTemporaryRoot());
    const before = process.umask(umask);
    onTestFinished(() => void process.umask(before));
    createStateFolder({ database, reserve, ...folders });
    for (const path of Object.values(folders)) expect(statSync(path).mode & 0o777).toBe(0o700);
    expect([existsSync(database), existsSync(reserve)]).toEqual([false, false]);
    expect([...listStateFolders({ database, reserve, ...folders })].sort()).toEqual(
      Object.values(folders).sort(),
    );
  },
);

test('making it again changes nothing', () => {
  const folder = stateFolderOf(makeTemporaryRoot());
  createStateFolder(folder);
  createStateFolder(folder);
  expect(existsSync(folder.locks)).toBe(true);
});

test.each([0o755, 0o770, 0o777, 0o600, 0o500, 0o000])(
  'one that others can enter, or its owner cannot (%o), is put right',
  (mode) => {
    const folder = stateFolderOf(makeTemporaryRoot());
    for (const path of [folder.path, folder.locks]) mkdirSync(path);
    for (const path of [folder.locks, folder.path]) chmodSync(path, mode);
    createStateFolder(folder);
    for (const path of [folder.path, folder.locks]) {
      expect(statSync(path).mode & 0o777).toBe(0o700);
    }
  },
);
