import { LEASE_GRACE_MS } from '../../queue/settle/retry-policy.ts';
import type { Runner } from '../../settings/settings.ts';
import type { Store } from '../../store/contract/store.ts';
import type { SeenFrom } from '../../store/contract/workers.ts';
import { hasSpool } from '../../store/spool/files.ts';
import { hasSecondName } from '../../store/sqlite/file.ts';
import { now } from '../../system/base/clock.ts';
import { listNames } from '../../system/base/values.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import { machineName } from '../../system/process/identity.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** Whether the log may not tell the truth. Asked at every start, and cheap: mostly it does. */
export async function mayNeedReconciling(place: Place, store: Store): Promise<boolean> {
  const { temporary, locks, results } = place.state;
  // A run's temporary folder is the last that goes, and a worker's lock: without them nothing is left, but for a result
  // that its process died over.
  return (
    isSpooled(place) ||
    [temporary, locks, results].some((folder) => listNames(folder).length > 0) ||
    hasSecondName(place.state) ||
    (await store.workers.hasOpen(seenFrom(store))) ||
    (await store.claims.expired(now(), LEASE_GRACE_MS)).length > 0
  );
}

/** Left out: all processes are this machine's. */
export function seenFrom({ fleet }: Store): SeenFrom | undefined {
  return fleet === null ? undefined : { host: machineName(), at: now() };
}

/** Whether runs may lie beside the log. */
export function isSpooled({ root, state }: Place): boolean {
  return [state, ...trustedFallbacksOf(root)].some(hasSpool);
}

/** Whether a job is still held by a worker that has ended. */
export async function hasOrphanedClaim(store: Store): Promise<boolean> {
  return (await store.claims.ofEndedWorkers()).length > 0;
}
