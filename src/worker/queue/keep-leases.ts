import { selectDeadWorkers } from '../../lock/dead-workers.ts';
import { beatMs, endExpiredLeases, renewLeases } from '../../queue/leases.ts';
import { isStoreFailure } from '../../store/store-failure.ts';
import type { LoggedCall } from '../pass.ts';
import { reconcileIfNeeded } from '../reconcile-if-needed.ts';

const SHORTEST_BEAT_MS = 200;

export interface LeaseKeeper {
  /** A job's own lease may be shorter than all the others. */
  note(leaseMs: number | null): void;
  stop(): void;
}

/**
 * Renews the claims of a worker, and takes back what others have let run out or have died under. A beat that fails is made
 * up for by the next one: being late alone gives no claim up.
 */
export function keepLeases(
  call: LoggedCall,
  workerId: number,
  onTakenBack: () => void,
): LeaseKeeper {
  const { store, runner } = call;
  const { queue } = runner.settings;
  const { leaseMs: defaultLeaseMs } = queue;
  let shortestMs = defaultLeaseMs;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  const beat = async (): Promise<void> => {
    try {
      const renewal = { at: runner.now(), defaultLeaseMs };
      await store.withoutSync((db) => renewLeases(db, workerId, renewal));
      // Before its leases run out: what it has left may tell how its runs have ended.
      const dead = await selectDeadWorkers(store.db, runner.state);
      if (dead.length > 0) await reconcileIfNeeded(call, store);
      const expired = await endExpiredLeases(store.db, runner.now, queue);
      if (dead.length + expired > 0) onTakenBack();
    } catch (error) {
      // Once it is stopped, the log may be closed under it.
      if (!isStopped && !isStoreFailure(error)) throw error;
    }
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
