import { endExpiredLeases, renewLeases } from '../../queue/leases.ts';
import { isStoreFailure } from '../../store/store-failure.ts';
import type { LoggedCall } from '../pass.ts';

/** A lease is renewed so often while it lasts, so that a few late renewals do not lose it. */
const BEATS_PER_LEASE = 10;
const SHORTEST_BEAT_MS = 200;

export interface LeaseKeeper {
  /** A job's own lease may be shorter than all the others. */
  note(leaseMs: number | null): void;
  stop(): void;
}

/**
 * Renews the claims of a worker, and takes back what others have let run out. A beat that fails is made
 * up for by the next one: being late alone gives no claim up.
 */
export function keepLeases({ store, runner }: LoggedCall, workerId: number): LeaseKeeper {
  const { leaseMs: defaultLeaseMs, missedCap } = runner.settings.queue;
  let shortestMs = defaultLeaseMs;
  let timer: NodeJS.Timeout | undefined;
  const beat = async (): Promise<void> => {
    try {
      const renewal = { at: runner.now(), defaultLeaseMs };
      await store.withoutSync((db) => renewLeases(db, workerId, renewal));
      await endExpiredLeases(store.db, runner.now, missedCap);
    } catch (error) {
      if (!isStoreFailure(error)) throw error;
    }
    if (timer !== undefined) schedule();
  };
  const schedule = (): void => {
    const delayMs = Math.max(shortestMs / BEATS_PER_LEASE, SHORTEST_BEAT_MS);
    timer = setTimeout(beat, delayMs).unref();
  };
  schedule();
  return {
    note: (leaseMs) => {
      if (leaseMs === null || leaseMs >= shortestMs) return;
      shortestMs = leaseMs;
      clearTimeout(timer);
      schedule();
    },
    stop: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
