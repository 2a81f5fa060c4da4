import { listNames } from '../config/list-names.ts';
import type { StateFolder } from '../config/state-folder.ts';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { type DeadHolder, describeDead } from './describe-holder.ts';
import { clearDeadLock } from './lock-file.ts';

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
