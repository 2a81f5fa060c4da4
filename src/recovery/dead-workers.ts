import { listNames } from '../base/values.ts';
import { type DeadHolder, describeDead } from '../lock/holder.ts';
import { clearDeadLock } from '../lock/lock-file.ts';
import { markCrashed } from '../lock/registry.ts';
import { checkWorker } from '../lock/tier-lock.ts';
import type { StateFolder } from '../place/state-folder.ts';
import { recordActivity } from '../store/events.ts';
import type { WorkerRow } from '../store/schema.ts';
import type { Database } from '../store/store.ts';

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

/** Removes the locks that dead processes have left, and tells whom each was taken over from. */
export async function clearDeadLocks(db: Database, state: StateFolder, at: number): Promise<void> {
  for (const tier of listLockedTiers(state)) {
    const dead = clearDeadLock(state.locks, tier);
    for (const each of dead.filter((file): file is DeadHolder => file.holder !== null)) {
      const detail = `took ${tier} over from ${describeDead(each, at)}`;
      await recordActivity(db, { at, event: 'lock-taken-over', detail });
    }
  }
}

/** Tiers with a lock, or with what was left beside one: `hourly.lock.<token>.new`. */
function listLockedTiers({ locks }: StateFolder): readonly string[] {
  const tiers = listNames(locks).flatMap((name) => /^(.+?)\.lock(?:\.|$)/.exec(name)?.[1] ?? []);
  return [...new Set(tiers)];
}
