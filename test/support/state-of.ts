import { onTestFinished } from 'vitest';
import {
  createStateFolder,
  type StateFolder,
  stateFolderOf,
} from '../../src/place/state-folder.ts';
import { openStore } from '../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';

/** The state folder of a root, made. */
export function makeStateOf(root: string): StateFolder {
  const state = stateFolderOf(root);
  createStateFolder(state);
  return state;
}

/** A connection to a root's log, as a runner has one; closed with the test. */
export async function openStoreOf(root: string): Promise<SqliteStore> {
  const store = await openStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}
