import type { StateFolder } from '../config/state-folder.ts';
import { toldPlainly } from '../store/describe-store-failure.ts';
import { type Database, openStore } from '../store/open-store.ts';
import { watchLog } from '../store/watch-log.ts';
import { QueueError } from './queue-error.ts';

/** The activity log as a queue uses it: for many calls at the same time, over one connection. */
export interface QueueLog {
  /** @throws {StoreUnavailable} instead of SQLite's own words */
  ask<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** The same, and wakes up who waits at this log; on a full disk the reserve is given up. */
  change<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** To be called before looking for work; sleeps then until there may be some. */
  watch(): Sleep;
  /** To be called when there was: who is woken in vain all the time is woken less. */
  found(): void;
  close(): Promise<void>;
}

/**
 * Ends when anybody has changed the log since, at that instant, or when the signal tells to stop. False:
 * the log was closed meanwhile.
 */
export type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<boolean>;

export async function openQueueLog(state: StateFolder, now: () => number): Promise<QueueLog> {
  const store = await openStore(state, { now });
  if (store.setAside !== null) process.emitWarning(store.setAside);
  const watch = watchLog(state, store);
  let isClosed = false;
  // A connection is not told of its own writes.
  let ownWrite = new AbortController();
  const underWay = new Set<Promise<unknown>>();
  const refuseClosed = (): void => {
    if (isClosed) throw new QueueError('invalid', 'This queue was closed; open it again.');
  };
  const ask: QueueLog['ask'] = async (work) => {
    refuseClosed();
    const asked = toldPlainly(state, () => work(store.db));
    underWay.add(asked);
    return await asked.finally(() => underWay.delete(asked));
  };
  return {
    ask,
    change: async (work) => {
      const result = await ask((db) => store.retryWhenFull(() => work(db)));
      // Without a reason Node makes an error with a stack for each change: 20 µs.
      ownWrite.abort('written');
      ownWrite = new AbortController();
      return result;
    },
    watch: () => {
      refuseClosed();
      const seen = watch.look();
      const { signal: written } = ownWrite;
      return async (untilMs, signal) => {
        // Not by AbortSignal.any: a signal that outlives many waits would keep something of each, in Node 22.
        const signals = signal === undefined ? [written] : [written, signal];
        await watch.changed(seen, untilMs, ...signals);
        return !isClosed;
      };
    },
    found: () => watch.found(),
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      watch.close();
      await Promise.allSettled(underWay);
      await store.close();
    },
  };
}
