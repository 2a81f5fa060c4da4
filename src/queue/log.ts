import { setTimeout as wait } from 'node:timers/promises';
import { toldPlainly } from '../store/describe-failure.ts';
import { openStore } from '../store/open.ts';
import type { NewJobRow } from '../store/statements/jobs.ts';
import type { Store, StoreSession } from '../store/store.ts';
import type { LogClock } from '../system/base/clock.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { addTogether, shareWrites } from './add/together.ts';
import { shareWatch } from './claim/shared-watch.ts';
import { QueueError } from './errors.ts';
import { JobIsBeginning, type VerbSession } from './read/jobs.ts';

/** The activity log as a queue uses it: for many calls at the same time, over one connection. */
export interface QueueLog {
  /** @throws {StoreUnavailable} instead of the engine's own error */
  ask<T>(work: (store: Store) => Promise<T>): Promise<T>;
  /**
   * Changes the log durably, as a whole or not at all, and wakes up callers that wait at this log. It waits for a job
   * that begins at this moment; on a full disk it gives up the reserve.
   */
  change<T>(work: (session: VerbSession) => Promise<T>): Promise<T>;
  /** The same, of jobs that nothing in the log can keep from being added: calls at the same time share a change. */
  add(rows: readonly NewJobRow[], actor?: string): Promise<number[]>;
  /** Call before looking for work; the returned sleep ends when there may be some. */
  watch(): Sleep;
  /** Call after a wake-up that found work; a consumer whose wake-ups find nothing is woken less often. */
  found(): void;
  isClosed(): boolean;
  close(): Promise<void>;
}

/**
 * Ends when the log has changed since, at that instant, or when the signal is aborted. False: the log was closed
 * meanwhile.
 */
type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<boolean>;

export async function openQueueLog(
  state: StateFolder,
  { now, clock }: { readonly now: () => number; readonly clock: LogClock },
): Promise<QueueLog> {
  const store = await openStore(state, { now, clock });
  if (store.quarantined !== null) process.emitWarning(store.quarantined);
  const watch = store.watch();
  const { look, noteOwnWrite } = shareWatch(watch, clock);
  let isClosed = false;
  const addShared = shareWrites(async (calls) => {
    const ids = await store.retryWhenFull(() => store.transaction((session) => addTogether(session, calls, now())));
    noteOwnWrite();
    return ids;
  });
  const underWay = new Set<Promise<unknown>>();
  const refuseClosed = (): void => {
    if (isClosed) throw new QueueError('invalid', 'This queue was closed; open it again.');
  };
  const ask: QueueLog['ask'] = async (work) => {
    refuseClosed();
    const asked = toldPlainly(state, () => work(store));
    underWay.add(asked);
    return await asked.finally(() => underWay.delete(asked));
  };
  return {
    ask,
    change: async (work) => {
      const askedAt = now();
      const result = await ask(() => store.retryWhenFull(() => changeOnceBegun(store, askedAt, work)));
      noteOwnWrite();
      return result;
    },
    add: (rows, actor) => ask(() => addShared({ rows, actor: actor ?? null })),
    watch: () => {
      refuseClosed();
      const sleep = look();
      return async (untilMs, signal) => {
        await sleep(untilMs, signal);
        return !isClosed;
      };
    },
    found: () => watch.found(),
    isClosed: () => isClosed,
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      watch.close();
      await Promise.allSettled(underWay);
      await store.close();
    },
  };
}

/** The same log; each change is recorded with this actor. */
export function asActor(log: QueueLog, actor: string): QueueLog {
  return {
    ...log,
    add: (rows) => log.add(rows, actor),
    change: (work) =>
      log.change((session) => {
        const record: StoreSession['events']['record'] = (events) =>
          session.events.record(events.map((each) => ({ ...each, actor })));
        return work({ ...session, actor, events: { ...session.events, record } });
      }),
  };
}

/** A claimed job ends, lasts or is given back within this time, in milliseconds, unless its worker stands still. */
const LONGEST_BEGINNING_MS = 500;
const BEGINNING_LOOK_MS = 10;

async function changeOnceBegun<T>(
  store: Store,
  askedAt: number,
  work: (session: VerbSession) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + LONGEST_BEGINNING_MS;
  for (;;) {
    const takesClaimed = performance.now() >= deadline;
    try {
      return await store.transaction((session) => work({ ...session, askedAt, takesClaimed }));
    } catch (error) {
      if (!(error instanceof JobIsBeginning)) throw error;
    }
    await wait(BEGINNING_LOOK_MS);
  }
}
