import { stateFolderOf } from '../config/state-folder.ts';
import type { Pausables } from './find-pausable.ts';
import { lookIntoJobs } from './look-into-jobs.ts';

/** What can be paused: all that is in `jobs/`, and jobs that wait though their handlers are elsewhere. */
export async function readPausables(root: string): Promise<Pausables> {
  const { tiers, unread, handlers } = (await lookIntoJobs(root)).discovery;
  const named = [...tiers, ...unread.map(({ tier }) => ({ name: tier, scripts: [] }))];
  const names = handlers.map(({ name }) => name.slice(name.indexOf('/') + 1));
  return { tiers: named, jobNames: [...new Set([...names, ...(await readWaitingNames(root))])] };
}

async function readWaitingNames(root: string): Promise<string[]> {
  const { openExistingStore } = await import('../store/open-store.ts');
  const { selectWaitingNames } = await import('../queue/waiting-jobs.ts');
  const { toldPlainly } = await import('../store/describe-store-failure.ts');
  const state = stateFolderOf(root);
  const store = await openExistingStore(state);
  if (store === null) return [];
  return await toldPlainly(state, () => selectWaitingNames(store.db)).finally(() => store.close());
}
