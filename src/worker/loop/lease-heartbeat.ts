import { beatMs, endExpiredLeases } from '../../queue/claim/leases.ts';
import { policyOf, type RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { findDeadWorkers } from '../../recovery/dead-workers.ts';
import { hasOrphanedClaim } from '../../recovery/needed.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { reconcileIfNeeded } from '../invocation/with-store.ts';

const SHORTEST_BEAT_MS = 200;

export interface LeaseHeartbeat {
  /** A job's own lease may be shorter than all the others. */
  note(leaseMs: number | null): void;
  stop(): void;
}

interface Beating {
  readonly workerId: number;
  /** What the handler of a job of this name says of further tries. */
  readonly policyOfName?: (name: string) => RetryPolicy;
  /** Told when jobs were taken back that somebody may take now. */
  readonly onTakenBack: () => void;
}

/**
 * Renews the claims of a worker, and takes back what others have let expire or have died under. A beat that
 * fails is made up for by the next one: being late alone gives no claim up.
 */
export function startHeartbeat(
  call: StoreInvocation,
  { workerId, policyOfName = () => policyOf(), onTakenBack }: Beating,
): LeaseHeartbeat {
  const { store, runner } = call;
  const { queue } = runner.settings;
  const { leaseMs: defaultLeaseMs } = queue;
  let shortestMs = defaultLeaseMs;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  // It may have to end what runs beyond its time limit: the renewals do not wait for that.
  let isRescuing = false;
  const isOrphaned = async (): Promise<boolean> =>
    (await findDeadWorkers(store, runner.state)).length > 0 || (await hasOrphanedClaim(store));
  const rescueDead = async (): Promise<void> => {
    isRescuing = true;
    try {
      await reconcileIfNeeded(call, store);
      onTakenBack();
    } catch (error) {
      if (isStopped || isStoreFailure(error)) return;
      // The jobs in hand go on: the next invocation meets the same, and says so.
      call.events.emit(
        'warning',
        `what dead processes have left could not be recovered: ${String(error)}`,
      );
    } finally {
      isRescuing = false;
    }
  };
  /** What the dead have left may tell how their runs have ended: before their leases are looked at. */
  const takeBack = async (): Promise<void> => {
    if (isRescuing) return;
    if (await isOrphaned()) void rescueDead();
    else if ((await endExpiredLeases(store, runner.now, queue, policyOfName)) > 0) onTakenBack();
  };
  const beat = async (): Promise<void> => {
    let heldMs = shortestMs;
    // What is claimed meanwhile is noted; a claim that has ended by then is not.
    shortestMs = defaultLeaseMs;
    try {
      const renewed = await store.transaction(
        (session) => session.claims.renew(workerId, runner.now(), defaultLeaseMs),
        'soon',
      );
      heldMs = renewed ?? defaultLeaseMs;
      await takeBack();
    } catch (error) {
      // Once it is stopped, the log may be closed under it.
      if (!isStopped && !isStoreFailure(error)) throw error;
    }
    shortestMs = Math.min(shortestMs, heldMs);
    schedule();
  };
  const schedule = (): void => {
    clearTimeout(timer);
    if (isStopped) return;
    timer = setTimeout(beat, Math.max(beatMs(shortestMs), SHORTEST_BEAT_MS)).unref();
  };
  schedule();
  return {
    note: (leaseMs) => {
      if (leaseMs === null || leaseMs >= shortestMs) return;
      shortestMs = leaseMs;
      schedule();
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
