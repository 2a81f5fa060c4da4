import type { Runner } from '../../settings/settings.ts';
import type { WorkerRow } from '../../store/schema.ts';
import { hasSpool } from '../../store/spool/files.ts';
import { type NewWorker, processOf, type SeenFrom } from '../../store/statements/workers.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import type { SkipCode } from '../../store/words.ts';
import { now } from '../../system/base/clock.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { listNames } from '../../system/base/values.ts';
import {
  type DeadHolder,
  describeDead,
  describeHolder,
  type LockHolder,
  type LockTiming,
  usualTiming,
} from '../../system/lock/holder.ts';
import { isLockHeldBy, takeLockFile } from '../../system/lock/lock-file.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import {
  checkLiveness,
  isOfAnotherBoot,
  isSameProcess,
  isStartKnown,
  type Liveness,
  machineName,
} from '../../system/process/identity.ts';

/** A worker that asks for a tier. */
export interface WorkerRequest extends NewWorker {
  readonly tier: string;
}

/** A worker's place in a tier. */
interface TierSlot<Begun = void> {
  readonly held: true;
  readonly workerId: number;
  /** "pid 4711 on web3, dead since … (its last sign of life)"; null: the tier was free. */
  readonly takenOverFrom: string | null;
  /** The answer of the worker's first step. */
  readonly begun: Begun;
}

/** A tier's lock: held until it is released, or lost meanwhile (`onCompromised`). */
export interface TierLock<Begun = void> extends TierSlot<Begun> {
  /** Gives the lock file back; the slot ends with the worker's row. */
  release(): Promise<void>;
}

export interface TierLockRefused {
  readonly held: false;
  /** "another pass of hourly is running: pid 4711 on web3, since …" */
  readonly reason: string;
}

/** The first step of a worker, in the transaction that adds its row. */
export type FirstStep<Begun> = (session: StoreSession, workerId: number) => Promise<Begun>;

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
  const dead = lock.takenOverFrom.filter((file): file is DeadHolder => file.holder !== null);
  const take = async () => {
    const begin = await prepare();
    return await takeTierSlot(store, request, dead, (worker) => checkWorker(state, worker), begin);
  };
  const slot = await take().catch(async (error) => {
    await lock.release();
    throw error;
  });
  if (slot.held) return { ...slot, release: lock.release };
  await lock.release();
  return slot;
}

/**
 * The second guard of the tier lock: adds the worker's row in one transaction, and only if no live worker has the tier.
 * A dead worker's row is marked as crashed.
 *
 * @param deadHolders holders from which the lock file was taken over
 */
export function takeTierSlot<Begun>(
  store: Store,
  request: WorkerRequest,
  deadHolders: readonly DeadHolder[],
  checkWorker: (worker: WorkerRow) => Liveness,
  begin: FirstStep<Begun>,
): Promise<TierSlot<Begun> | TierLockRefused> {
  const { tier, startedAt: at } = request;
  return store.transaction(async (session) => {
    // In a fleet each machine has the tier for itself: a script is run by the machine that claims it.
    const [worker] = await session.workers.running(tier, store.fleet === null ? undefined : request.host);
    if (worker !== undefined && checkWorker(worker) !== 'dead') {
      const holder = holderOf(worker);
      await session.workers.skip(request, 'held', describeHeld(tier, holder, 'was'));
      return { held: false, reason: describeHeld(tier, holder, 'is') };
    }
    if (worker !== undefined) await markCrashed(session, worker, at);
    const workerId = await session.workers.start(request);
    const dead = addWorker(deadHolders, worker).map((each) => describeDead(each, at));
    await session.events.record(
      dead.map((each) => ({
        ...{ at, event: 'lock-taken-over' as const, workerId },
        detail: `took ${tier} over from ${each}`,
      })),
    );
    const begun = await begin(session, workerId);
    return { held: true, workerId, takenOverFrom: dead.join(' and ') || null, begun };
    // A worker that goes on to start something syncs this to the disk first.
  }, 'soon');
}

/**
 * Why a pass is skipped: "another pass of hourly is running: pid 4711 on web3, since …".
 *
 * @param verb `was` in the log, which is read later
 */
export function describeHeld(tier: string, holder: LockHolder, verb: 'is' | 'was'): string {
  return `another ${isExecName(tier) ? 'call' : 'pass'} of ${tier} ${verb} running: ${describeHolder(holder)}`;
}

/** Records a call that could not run the tier. */
export async function skipTier(store: Store, request: WorkerRequest, code: SkipCode, reason: string): Promise<void> {
  await store.transaction((session) => session.workers.skip(request, code, reason));
}

/** A worker's process as the holder of its tier. */
function holderOf(worker: WorkerRow): LockHolder {
  return { ...processOf(worker), since: worker.started_at };
}

/** Adds a dead worker, unless it is one of those that left the lock file; its own lock file may be gone already. */
function addWorker(dead: readonly DeadHolder[], worker?: WorkerRow): readonly DeadHolder[] {
  if (worker === undefined) return dead;
  const holder = holderOf(worker);
  if (dead.some((each) => isSameProcess(each.holder, holder))) return dead;
  return [...dead, { holder, lastSeenAt: holder.since }];
}

/** Ends the row of a worker whose process or machine is gone. */
export async function markCrashed(session: StoreSession, worker: WorkerRow, at: number): Promise<void> {
  const reason = isElsewhere(worker) ? describeSilence(worker) : 'its process has gone without finishing';
  await session.workers.end(worker.id, { state: 'crashed', at, reason });
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

/** How long other machines consider a silent worker to be alive, in milliseconds. */
export const LEASE_MS = 60_000;

/** Time between two signs of life of a worker. */
export const BEAT_MS = 10_000;

/** Whether a worker with a lease has given no sign of life for as long as the lease lasts. */
export function isLeaseOver({ lease_expires_at }: Pick<WorkerRow, 'lease_expires_at'>): boolean {
  return lease_expires_at !== null && lease_expires_at < now();
}

/** Whether a worker belongs to another machine, whose processes and files cannot be seen from here. */
export function isElsewhere({ host, lease_expires_at }: Pick<WorkerRow, 'host' | 'lease_expires_at'>): boolean {
  return lease_expires_at !== null && host !== machineName();
}

/** "web-2 has given no sign of life since 2026-11-01T10:00:00.000Z" */
export function describeSilence({ host, lease_expires_at }: Pick<WorkerRow, 'host' | 'lease_expires_at'>): string {
  const since = (lease_expires_at ?? 0) - LEASE_MS;
  return `${host} has given no sign of life since ${new Date(since).toISOString()}`;
}

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
