import { existsSync, linkSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { placeLog } from '../../src/store/sqlite/create.ts';
import { chooseJournalMode, removeSecondName, unplacedLog } from '../../src/store/sqlite/file.ts';
import { createStateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

test('a local disk gets a WAL', () => {
  expect(chooseJournalMode(makeTemporaryRoot())).toBe('wal');
});

test('a file system that is not known to be local gets a rollback journal', () => {
  expect(chooseJournalMode('/proc')).toBe('truncate');
});

function makeState() {
  const state = stateFolderOf(makeTemporaryRoot());
  createStateFolder(state);
  return state;
}

test('a log that still has the name that it was made under loses it', () => {
  const state = makeState();
  writeFileSync(state.database, 'log');
  linkSync(state.database, unplacedLog(state));
  removeSecondName(state);
  expect([existsSync(state.database), existsSync(unplacedLog(state))]).toEqual([true, false]);
});

test('a log that is being made beside another one is left alone', () => {
  const state = makeState();
  writeFileSync(state.database, 'log');
  writeFileSync(unplacedLog(state), 'new');
  removeSecondName(state);
  expect(existsSync(unplacedLog(state))).toBe(true);
  removeSecondName(makeState());
});

function noHardLinks(): never {
  throw Object.assign(new Error('operation not permitted'), { code: 'EPERM' });
}

test.each([
  ['with', undefined],
  ['without', noHardLinks],
])('%s hard links, the new log gets its name, and never that of one that is there', (_how, link) => {
  const folder = makeTemporaryRoot();
  const [first, second, place] = ['first', 'second', 'log'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [first, second]) {
    writeFileSync(path, path);
    placeLog(path, place, link);
    expect(existsSync(path)).toBe(false);
  }
  expect(readFileSync(place, 'utf8')).toBe(first);
});
