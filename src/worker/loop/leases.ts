import { beatMs, endExpiredLeases } from '../../queue/claim/leases.ts';
import type { PolicyOfName } from '../../queue/settle/retry-policy.ts';
import { isStoreFailure } from '../../store/failures.ts';
import type { ClaimRef } from '../../store/statements/runs.ts';
import type { Store } from '../../store/store.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';
import { reconcileIfNeeded, reportStoreFailure } from '../invocation/with-store.ts';
import { findDeadWorkers } from '../recovery/dead-workers.ts';
import { hasOrphanedClaim } from '../recovery/needed.ts';

const SHORTEST_BEAT_MS = 200;

export type LeaseHeartbeat = ReturnType<typeof renewLeases>;

interface Beating {
  readonly workerId: number;
  /** The retry policy for jobs of this name, by their handler. */
  readonly policyOfName: PolicyOfName;
  /** Called when jobs were taken back that others may claim now. */
  readonly onTakenBack: () => void;
}

function guardRuns(store: Store) {
  const guarded = new Map<ClaimRef, () => void>();
  return {
    /**
     * Calls `end` for a lasting run once its job is no longer its own: somebody else has failed, buried or requeued it.
     */
    guard: (claim: ClaimRef, end: () => void) => void guarded.set(claim, end),
    /** Call it once the run's process has ended. */
    unguard: (claim: ClaimRef) => void guarded.delete(claim),
    endLost: async (): Promise<void> => {
      const claims = [...guarded.keys()];
      if (claims.length === 0) return;
      const held = new Set((await store.claims.held(claims)).map(({ claim_token }) => claim_token));
      for (const claim of claims) if (!held.has(claim.token)) guarded.get(claim)?.();
    },
  };
}

/**
 * Renews the claims of a worker, and takes back claims that others have let expire or whose workers have died. The next
 * beat makes up for a failed one: being late alone loses no claim.
 */
export function renewLeases(call: StoreInvocation, { workerId, policyOfName, onTakenBack }: Beating) {
  const { store, runner } = call;
  const { queue } = runner.settings;
  const { leaseMs: defaultLeaseMs } = queue;
  let shortestMs = defaultLeaseMs;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  // The rescue may have to end overdue runs, and the renewals do not wait for that.
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
      // The present jobs go on: the next invocation meets the same error and reports it.
      call.events.emit('warning', `the recovery after dead processes failed: ${String(error)}`);
    } finally {
      isRescuing = false;
    }
  };
  /** Leftovers of dead workers may tell how their runs ended, so they come before expired leases. */
  const takeBack = async (): Promise<void> => {
    if (isRescuing) return;
    if (await isOrphaned()) void rescueDead();
    else if ((await endExpiredLeases(store, runner.now, queue, async () => policyOfName)) > 0) onTakenBack();
  };
  const { endLost, ...guarding } = guardRuns(store);
  const beat = async (): Promise<void> => {
    let heldMs = shortestMs;
    // Claims made meanwhile are noted, and claims that have ended by then are not.
    shortestMs = defaultLeaseMs;
    try {
      const renewed = await store.transaction(
        (session) => session.claims.renew(workerId, runner.now(), defaultLeaseMs),
        'soon',
      );
      heldMs = renewed ?? defaultLeaseMs;
      await endLost();
      await takeBack();
    } catch (error) {
      // After a stop the log may be closed during a beat. An error in a timer would reach nobody else.
      if (!isStopped && !isStoreFailure(error)) reportStoreFailure(call, error);
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
    /** Takes a job's own lease into account, which may be shorter than all others. */
    note: (leaseMs: number | null): void => {
      if (leaseMs === null || leaseMs >= shortestMs) return;
      shortestMs = leaseMs;
      schedule();
    },
    ...guarding,
    stop: (): void => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
