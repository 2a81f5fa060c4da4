import { onTestFinished } from 'vitest';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import type { Store } from '../../../src/store/store.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { engine } from '../engines/engines.ts';

/** The state folder of a root, made. */
export function makeStateOf(root: string): StateFolder {
  const state = stateFolderOf(root);
  createStateFolder(state);
  return state;
}

/** A connection to a root's log, as a runner has one; closed with the test. */
export async function openStoreOf(root: string): Promise<Store> {
  const store = await engine.openStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}

/** The same for what is SQLite's own. */
export async function openSqliteOf(root: string): Promise<SqliteStore> {
  const store = await openSqliteStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}
