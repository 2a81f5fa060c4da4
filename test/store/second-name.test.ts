import { existsSync, linkSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { removeSecondName, unplacedLog } from '../../src/store/sqlite/file.ts';
import { createStateFolder, stateFolderOf } from '../../src/system/place/state-folder.ts';

import { makeTemporaryRoot } from '../support/temporary-root.ts';

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
