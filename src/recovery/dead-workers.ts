import { listNames } from '../base/values.ts';
import { type DeadHolder, describeDead } from '../lock/holder.ts';
import { clearDeadLock } from '../lock/lock-file.ts';
import { markCrashed } from '../lock/registry.ts';
import { checkWorker } from '../lock/tier-lock.ts';
import type { StateFolder } from '../place/state-folder.ts';
import type { Store } from '../store/contract.ts';
import type { WorkerRow } from '../store/schema.ts';

/** Ends the rows of workers that the log believes to be at work and whose process is gone. */
export async function markDeadWorkers(store: Store, state: StateFolder, at: number): Promise<void> {
  const dead = await findDeadWorkers(store, state);
  if (dead.length === 0) return;
  await store.transaction(async (session) => {
    for (const worker of dead) await markCrashed(session, worker, at);
  });
}

/** Those that the log believes to be at work and whose process is gone. */
export async function findDeadWorkers(store: Store, state: StateFolder): Promise<WorkerRow[]> {
  const running = await store.workers.running();
  return running.filter((worker) => checkWorker(state, worker) === 'dead');
}

/** Removes the locks that dead processes have left, and records whom each was taken over from. */
export async function clearDeadLocks(store: Store, state: StateFolder, at: number): Promise<void> {
  for (const tier of listLockedTiers(state)) {
    const dead = clearDeadLock(state.locks, tier);
    for (const each of dead.filter((file): file is DeadHolder => file.holder !== null)) {
      const detail = `took ${tier} over from ${describeDead(each, at)}`;
      await store.events.record([{ at, event: 'lock-taken-over', detail }]);
    }
  }
}

/** Tiers with a lock, or with what was left beside one: `hourly.lock.<token>.new`. */
function listLockedTiers({ locks }: StateFolder): readonly string[] {
  const tiers = listNames(locks).flatMap((name) => /^(.+?)\.lock(?:\.|$)/.exec(name)?.[1] ?? []);
  return [...new Set(tiers)];
}
