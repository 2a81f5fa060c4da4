import type { Script } from '../../../src/discovery/script.ts';
import { newJobOf } from '../../../src/queue/add/scripts.ts';
import type { StoreSession } from '../../../src/store/store.ts';

interface Wanted {
  readonly script: Script;
  readonly scheduledFor: number | null;
}

/** Queues scripts as a pass does, whose scripts have no open jobs. Call it in a transaction. */
export async function enqueueScripts({ scriptJobs }: StoreSession, wanted: readonly Wanted[], at: number) {
  const ids = await scriptJobs.enqueue(wanted.map((each) => newJobOf(each, at)));
  return wanted.map((each, index) => ({ ...each, id: ids[index] as number }));
}
