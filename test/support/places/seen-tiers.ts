import { tierNames } from '../../../src/discovery/jobs-folder.ts';
import { dueChore } from '../../../src/schedule/due.ts';
import { engine } from '../engines/engines.ts';
import { makeStateOf } from '../queue/state-of.ts';
import { type FileContent, makeTemporaryRoot } from './temporary-root.ts';

/** As if `runner due` had seen the tiers of a root long ago: one that no call has seen begins with its next period. */
export async function seeTiers(root: string): Promise<void> {
  const store = await engine.openStore(makeStateOf(root));
  for (const tier of tierNames(root)) await store.chores.setDone(dueChore(tier), 0);
  await store.close();
}

/** A root whose tiers are all due. */
export async function makeSeenRoot(files: Readonly<Record<string, FileContent>>): Promise<string> {
  const root = makeTemporaryRoot(files);
  await seeTiers(root);
  return root;
}
