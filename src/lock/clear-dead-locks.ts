import { readdirSync } from 'node:fs';
import type { StateFolder } from '../config/state-folder.ts';
import { identifyProcess } from '../process/process-identity.ts';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { type DeadHolder, describeDead } from './describe-holder.ts';
import { takeLockFile } from './lock-file.ts';

const LOCK = '.lock';

/** Takes over each lock that a dead process has left, and gives it back at once. */
export async function clearDeadLocks(db: Database, state: StateFolder, at: number): Promise<void> {
  const tiers = readdirSync(state.locks).filter((name) => name.endsWith(LOCK));
  for (const tier of tiers.map((name) => name.slice(0, -LOCK.length))) {
    const self = { ...identifyProcess(process.pid), since: at };
    const lock = await takeLockFile(state.locks, tier, self, () => {});
    if (!('release' in lock)) continue;
    const dead = lock.takenOverFrom.filter((file): file is DeadHolder => file.holder !== null);
    for (const each of dead) {
      const detail = `took ${tier} over from ${describeDead(each, at)}`;
      await recordActivity(db, { at, event: 'lock-taken-over', detail });
    }
    await lock.release();
  }
}
