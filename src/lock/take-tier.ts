import type { StateFolder } from '../config/state-folder.ts';
import { checkLiveness, type Liveness } from '../process/process-identity.ts';
import type { Store } from '../store/open-store.ts';
import type { WorkerRow } from '../store/schema.ts';
import { isLockFileFresh, type LockHolder, STALE_MS, takeLockFile } from './lock-file.ts';
import { describeHolder, giveUpTierSlot, takeTierSlot, type WorkerRequest } from './tier-slot.ts';

/** A tier's lock: held until released, or lost on the way (`onCompromised`). */
export interface TierLock {
  readonly held: true;
  readonly workerId: number;
  /** Gives the lock file back; the slot ends with the worker's row, which is to be ended after it. */
  release(): Promise<void>;
}

export interface TierLockRefused {
  readonly held: false;
  /** "hourly is held by pid 4711 on web3, since …" */
  readonly reason: string;
}

/**
 * Takes a tier: first its slot in the log, which only one live process can have, then its lock
 * file. A dead holder loses both at once. Never waits for a live one.
 *
 * @param onCompromised told, at most once, when the lock file was lost while it was held
 */
export async function takeTier(
  store: Store,
  state: StateFolder,
  request: WorkerRequest,
  onCompromised: (reason: string) => void,
): Promise<TierLock | TierLockRefused> {
  const check = (worker: WorkerRow): Liveness => checkWorker(state, worker, request.startedAt);
  const slot = await takeTierSlot(store.db, request, check);
  if (!slot.free) return refuse(request.tier, describeHolder(slot.holder));
  const self: LockHolder = { ...request.self, since: request.startedAt };
  const lock = await takeLockFile(state.locks, request.tier, self, onCompromised);
  if ('release' in lock) return { held: true, workerId: slot.workerId, release: lock.release };
  const refused = refuse(request.tier, describeHolder({ ...lock, started_at: lock.since }));
  await giveUpTierSlot(store.db, slot.workerId, request.startedAt, refused.reason);
  return refused;
}

function checkWorker(state: StateFolder, worker: WorkerRow, at: number): Liveness {
  const liveness = checkLiveness({
    host: worker.host,
    bootId: worker.boot_id,
    pid: worker.pid,
    startTicks: worker.pid_start_ticks,
  });
  if (liveness !== 'on-another-host' || worker.tier === null) return liveness;
  // Two hosts' crons start in the same moment: between slot and lock file there is nothing to see yet.
  if (Math.abs(at - worker.started_at) < STALE_MS) return 'on-another-host';
  return isLockFileFresh(state.locks, worker.tier) ? 'on-another-host' : 'dead';
}

function refuse(tier: string, holder: string): TierLockRefused {
  return { held: false, reason: `${tier} is held by ${holder}` };
}
