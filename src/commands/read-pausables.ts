import { stateFolderOf } from '../config/state-folder.ts';
import type { Pausables } from './find-pausable.ts';
import { lookIntoJobs } from './look-into-jobs.ts';

/** What can be paused: all that is in `jobs/`, and jobs that wait though their handlers are elsewhere. */
export async function readPausables(root: string): Promise<Pausables> {
  const { tiers, handlers } = (await lookIntoJobs(root)).discovery;
  const names = handlers.map(({ name }) => name.slice(name.indexOf('/') + 1));
  return { tiers, jobNames: [...new Set([...names, ...(await readWaitingNames(root))])] };
}

async function readWaitingNames(root: string): Promise<string[]> {
  const { openExistingStore } = await import('../store/open-store.ts');
  const { selectWaitingNames } = await import('../report/read-queue-status.ts');
  const store = await openExistingStore(stateFolderOf(root));
  return store === null ? [] : await selectWaitingNames(store.db).finally(() => store.close());
}
