import type { StateFolder } from '../config/state-folder.ts';
import type { Database } from '../store/open-store.ts';
import type { WorkerRow } from '../store/schema.ts';
import { checkWorker } from './take-tier.ts';
import { markCrashed } from './tier-slot.ts';

/** Ends the rows of workers that the log believes to be at work and whose process is gone. */
export async function markDeadWorkers(db: Database, state: StateFolder, at: number): Promise<void> {
  const dead = await selectDeadWorkers(db, state);
  if (dead.length === 0) return;
  await db.transaction().execute(async (transaction) => {
    for (const worker of dead) await markCrashed(transaction, worker, at);
  });
}

/** Those that the log believes to be at work and whose process is gone. */
export async function selectDeadWorkers(db: Database, state: StateFolder): Promise<WorkerRow[]> {
  const running = await db
    .selectFrom('workers')
    .selectAll()
    .where('state', '=', 'running')
    .execute();
  return running.filter((worker) => checkWorker(state, worker) === 'dead');
}
