import { LEASE_GRACE_MS } from '../../queue/settle/retry-policy.ts';
import type { Runner } from '../../settings/settings.ts';
import type { Store } from '../../store/contract.ts';
import { hasSpool } from '../../store/spool/files.ts';
import { hasSecondName } from '../../store/sqlite/file.ts';
import { listNames } from '../../system/base/values.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** Whether the log may not tell the truth. Asked at every start, and cheap: mostly it does. */
export async function mayNeedReconciling(place: Place, store: Store): Promise<boolean> {
  const { temporary, locks } = place.state;
  // A run's temporary folder is the last that goes, and a worker's lock: without them nothing is left.
  return (
    isSpooled(place) ||
    listNames(temporary).length > 0 ||
    listNames(locks).length > 0 ||
    hasSecondName(place.state) ||
    (await store.workers.hasOpen()) ||
    (await store.claims.expired(Date.now(), LEASE_GRACE_MS)).length > 0
  );
}

/** Whether runs may lie beside the log. */
export function isSpooled({ root, state }: Place): boolean {
  return [state, ...trustedFallbacksOf(root)].some(hasSpool);
}

/** Whether a job is still held by a worker that has ended. */
export async function hasOrphanedClaim(store: Store): Promise<boolean> {
  return (await store.claims.ofWorkers()).some(({ worker }) => worker.state !== 'running');
}
