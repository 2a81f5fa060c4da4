import { discoverNames } from '../../discovery/folder.ts';
import type { ClaimOfWorker } from '../../store/statements/claims.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { now } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import { isElsewhere, isLeaseOver } from './tier-lock.ts';

/** A machine not seen for this long will not come soon to judge its own runs. */
const RECENT_MS = 86_400_000;

/**
 * Selects the claims of ended workers that this machine must settle: its own ones, and those of a silent machine. A
 * silent machine's script is left out if only other machines have it, because its tags decide what follows a crash.
 */
export async function leftToUs(
  store: Store,
  root: string,
  claims: readonly ClaimOfWorker[],
): Promise<readonly ClaimOfWorker[]> {
  const silent = claims.filter(({ worker }) => isElsewhere(worker) && isLeaseOver(worker));
  const names = new Set(silent.flatMap(({ job }) => (job.tier === null ? [] : job.name)));
  const seenAfter = now() - RECENT_MS;
  const copies = names.size === 0 ? [] : await machinesOf(store.statements).copies({ names: [...names], seenAfter });
  // The other machines may not know this machine's scripts yet.
  const own = copies.length === 0 ? new Set() : new Set(discoverNames(root).tiers.flatMap(({ scripts }) => scripts));
  const isOurs = ({ job, worker }: ClaimOfWorker): boolean =>
    job.tier === null ||
    own.has(job.name) ||
    !copies.some(({ name, host }) => name === job.name && host !== worker.host && host !== machineName());
  return claims.filter((claim) => !isElsewhere(claim.worker) || (silent.includes(claim) && isOurs(claim)));
}
