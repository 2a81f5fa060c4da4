import type { WorkerRow } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import { type DeadHolder, type LockTiming, usualTiming } from '../../system/lock/holder.ts';
import { isLockHeldBy, type LockFile, takeLockFile } from '../../system/lock/lock-file.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import {
  checkLiveness,
  isOfAnotherBoot,
  isStartKnown,
  type Liveness,
  machineName,
} from '../../system/process/identity.ts';
import { isLeaseOver } from './lease.ts';
import {
  describeHeld,
  type FirstStep,
  holderOf,
  skipTier,
  type TierSlot,
  takeTierSlot,
  type WorkerRequest,
} from './registry.ts';

/** A tier's lock: held until it is released, or lost meanwhile (`onCompromised`). */
export interface TierLock<Begun = void> {
  readonly held: true;
  readonly workerId: number;
  /** "pid 4711 on web3, dead since … (its last sign of life)"; null: the lock was free. */
  readonly takenOverFrom: string | null;
  /** The answer of the worker's first step. */
  readonly begun: Begun;
  /** Gives the lock file back; the slot ends with the worker's row. */
  release(): Promise<void>;
}

export interface TierLockRefused {
  readonly held: false;
  /** "another pass of hourly is running: pid 4711 on web3, since …" */
  readonly reason: string;
}

/**
 * Takes a tier: first its lock file, which all hosts see, then its slot in the log, which holds even if somebody
 * removes the lock file. A dead holder loses both at once. It never waits for a live holder.
 *
 * @param onCompromised called at most once, when the lock file is lost while it is held
 * @param prepare called while the lock file is held; the step that it returns is committed with the slot
 */
export async function takeTier<Begun>(
  store: Store,
  state: StateFolder,
  request: WorkerRequest,
  onCompromised: (reason: string) => void,
  prepare: () => Promise<FirstStep<Begun>>,
  timing: LockTiming = usualTiming,
): Promise<TierLock<Begun> | TierLockRefused> {
  const { host, bootId, pid, startTicks, startedAt: since } = request;
  const self = { host, bootId, pid, startTicks, since };
  const lock = await takeLockFile(state.locks, request.tier, self, onCompromised, timing);
  if (!('release' in lock)) {
    await skipTier(store, request, 'held', describeHeld(request.tier, lock, 'was'));
    return { held: false, reason: describeHeld(request.tier, lock, 'is') };
  }
  const slot = await takeSlot(store, state, request, lock, prepare);
  if (slot.free) return { held: true, ...slot, release: lock.release };
  await lock.release();
  return { held: false, reason: slot.reason };
}

async function takeSlot<Begun>(
  store: Store,
  state: StateFolder,
  request: WorkerRequest,
  lock: LockFile,
  prepare: () => Promise<FirstStep<Begun>>,
): Promise<TierSlot<Begun>> {
  const dead = lock.takenOverFrom.filter((file): file is DeadHolder => file.holder !== null);
  try {
    const begin = await prepare();
    return await takeTierSlot(store, request, dead, (worker) => checkWorker(state, worker), begin);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Whether a worker whose row says that it is working is alive. */
export function checkWorker(state: StateFolder, worker: WorkerRow): Liveness {
  const holder = holderOf(worker);
  const liveness = checkLiveness(holder);
  if (worker.lease_expires_at !== null) return checkLeased(worker, liveness);
  if (liveness === 'dead' || worker.tier === null) return liveness;
  if (liveness === 'alive' && isStartKnown(holder)) return liveness;
  // A worker makes its lock file before its row, and refreshes the file as long as it lives.
  return isLockHeldBy(state.locks, worker.tier, holder) ? liveness : 'dead';
}

/**
 * Judges a worker of a fleet: a process of another machine shows itself that it is alive. Two machines of one name
 * cannot tell their reboots apart.
 */
function checkLeased(worker: WorkerRow, liveness: Liveness): Liveness {
  const holder = holderOf(worker);
  const isHere = holder.host === machineName() && !isOfAnotherBoot(holder);
  if (isHere && liveness === 'dead') return 'dead';
  if (isHere && liveness === 'alive' && isStartKnown(holder)) return 'alive';
  return isLeaseOver(worker) ? 'dead' : liveness === 'dead' ? 'on-another-host' : liveness;
}
