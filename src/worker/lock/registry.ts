import type { WorkerRow } from '../../store/schema.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import type { SkipCode } from '../../store/words.ts';
import { type DeadHolder, describeDead, describeHolder, type LockHolder } from '../../system/lock/holder.ts';
import { isSameProcess, type Liveness } from '../../system/process/identity.ts';
import { describeSilence, isElsewhere } from './lease.ts';

/** A worker that asks for a tier. */
export interface WorkerRequest extends NewWorker {
  readonly tier: string;
}

export type TierSlot<Begun = void> =
  | {
      readonly free: true;
      readonly workerId: number;
      readonly takenOverFrom: string | null;
      /** The answer of the worker's first step. */
      readonly begun: Begun;
    }
  | { readonly free: false; readonly reason: string };

/** The first step of a worker, in the transaction that adds its row. */
export type FirstStep<Begun> = (session: StoreSession, workerId: number) => Promise<Begun>;

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
): Promise<TierSlot<Begun>> {
  const { tier, startedAt: at } = request;
  return store.transaction(async (session) => {
    // In a fleet each machine has the tier for itself: a script is run by the machine that claims it.
    const [worker] = await session.workers.running(tier, store.fleet === null ? undefined : request.host);
    if (worker !== undefined && checkWorker(worker) !== 'dead') {
      const holder = holderOf(worker);
      await session.workers.skip(request, 'held', describeHeld(tier, holder, 'was'));
      return { free: false, reason: describeHeld(tier, holder, 'is') };
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
    return { free: true, workerId, takenOverFrom: dead.join(' and ') || null, begun };
    // A worker that goes on to start something syncs this to the disk first.
  }, 'soon');
}

/**
 * Why a pass is skipped: "another pass of hourly is running: pid 4711 on web3, since …".
 *
 * @param verb `was` in the log, which is read later
 */
export function describeHeld(tier: string, holder: LockHolder, verb: 'is' | 'was'): string {
  return `another pass of ${tier} ${verb} running: ${describeHolder(holder)}`;
}

/** Records a call that could not run the tier. */
export async function skipTier(store: Store, request: WorkerRequest, code: SkipCode, reason: string): Promise<void> {
  await store.transaction((session) => session.workers.skip(request, code, reason));
}

/** A worker's process as the holder of its tier. */
export function holderOf(worker: WorkerRow): LockHolder {
  return {
    host: worker.host,
    bootId: worker.boot_id,
    pid: worker.pid,
    startTicks: worker.pid_start_ticks,
    since: worker.started_at,
  };
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
