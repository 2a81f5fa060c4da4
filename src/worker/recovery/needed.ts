import type { Runner } from '../../settings/settings.ts';
import { hasSpool } from '../../store/spool/files.ts';
import type { SeenFrom } from '../../store/statements/workers.ts';
import type { Store } from '../../store/store.ts';
import { now } from '../../system/base/clock.ts';
import { listNames } from '../../system/base/values.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import { machineName } from '../../system/process/identity.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** Whether the log may need corrections. It is called at every start, so it is fast; usually there are none. */
export async function mayNeedReconciling(place: Place, store: Store): Promise<boolean> {
  const { temporary, locks, results } = place.state;
  // A run's temporary folder is removed last, and so is a worker's lock. Without them nothing is left, except for a
  // result during whose writing its process died.
  return (
    isSpooled(place) ||
    [temporary, locks, results].some((folder) => listNames(folder).length > 0) ||
    (await store.workers.hasOpen(now(), seenFrom(store)))
  );
}

/** Undefined: all processes belong to this machine. */
export function seenFrom({ fleet }: Store): SeenFrom | undefined {
  return fleet === null ? undefined : { host: machineName(), at: now() };
}

/** Whether runs may be recorded beside the log. */
export function isSpooled({ root, state }: Place): boolean {
  return [state, ...trustedFallbacksOf(root)].some(hasSpool);
}

/** Whether a worker that has ended still holds a job. */
export async function hasOrphanedClaim(store: Store): Promise<boolean> {
  return (await store.claims.ofEndedWorkers()).length > 0;
}
