import { setTimeout as wait } from 'node:timers/promises';
import { toldPlainly } from '../store/describe-failure.ts';
import { isRefusal } from '../store/failures.ts';
import { openStore } from '../store/open.ts';
import type { NewEvent } from '../store/statements/events.ts';
import type { NewJobRow } from '../store/statements/jobs.ts';
import type { ChangeWatch, Store, StoreSession } from '../store/store.ts';
import type { LogClock } from '../system/base/clock.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
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

/** Ends when the log may have changed since or was closed, at that instant, or when the signal is aborted. */
type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<void>;

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
      return look();
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
    change: (work) => log.change((session) => work(inNameOf(session, actor))),
  };
}

/** The same session; each event is recorded with this actor. */
export function inNameOf<Session extends StoreSession>(session: Session, actor: string): Session {
  const record: StoreSession['events']['record'] = (events) =>
    session.events.record(events.map((each) => ({ ...each, actor })));
  return { ...session, actor, events: { ...session.events, record } };
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

/** Callers that saw the same version of the log, and one wait for another version. */
interface Shared {
  readonly end: Promise<unknown>;
  /** Releases the files. */
  readonly nobodyWaits: AbortController;
  waiting: number;
}

/** The longest time of a timer; a longer one would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Lets any number of callers wait for a change of the log with one watch of its files. */
function shareWatch(watch: ChangeWatch, clock: LogClock) {
  const underWay = new Map<number, Shared>();
  const sleepers = new Set<() => void>();
  let ownWrites = 0;
  const share = (since: number): Shared => {
    const found = underWay.get(since);
    if (found !== undefined) return found;
    const nobodyWaits = new AbortController();
    const end = watch.changed(since, null, nobodyWaits.signal).finally(() => forget(since, shared));
    const shared: Shared = { end, nobodyWaits, waiting: 0 };
    underWay.set(since, shared);
    return shared;
  };
  const forget = (since: number, shared: Shared): void => {
    if (underWay.get(since) === shared) underWay.delete(since);
  };
  return {
    /** Ends all sleeps: a connection gets no notice of its own writes. */
    noteOwnWrite: (): void => {
      ownWrites += 1;
      for (const wake of sleepers) wake();
    },
    /** Call it before looking for work. */
    look: (): Sleep => {
      const [since, writesSeen] = [watch.look(), ownWrites];
      return async (untilMs, signal) => {
        if (signal?.aborted || ownWrites !== writesSeen) return;
        const shared = share(since);
        const { promise: own, resolve } = Promise.withResolvers<void>();
        const wake = (): void => resolve();
        const leftMs = Math.min((untilMs ?? Number.POSITIVE_INFINITY) - clock.now(), LONGEST_TIMER_MS);
        const timer = setTimeout(wake, Math.max(leftMs, 0));
        sleepers.add(wake);
        signal?.addEventListener('abort', wake);
        shared.waiting += 1;
        try {
          await Promise.race([shared.end, own]);
        } finally {
          clearTimeout(timer);
          sleepers.delete(wake);
          signal?.removeEventListener('abort', wake);
          shared.waiting -= 1;
          if (shared.waiting === 0) {
            forget(since, shared);
            shared.nobodyWaits.abort();
          }
        }
      };
    },
  };
}

/** The jobs of one call, added all or none; nothing in the log can prevent that. */
interface PlainJobs {
  readonly rows: readonly NewJobRow[];
  /** Null: it is not recorded. */
  readonly actor: string | null;
}

/** Adds what several calls gave, in its order, and returns the numbers. To be called in a transaction. */
async function addTogether(session: StoreSession, calls: readonly PlainJobs[], at: number): Promise<number[]> {
  const jobs = calls.flatMap(({ rows, actor }) => rows.map((row) => ({ row, actor })));
  const ids = await session.jobs.add(
    jobs.map(({ row }) => row),
    at,
  );
  const events = jobs.flatMap(({ actor }, index): NewEvent[] =>
    actor === null ? [] : [{ at, event: 'job-added', jobId: ids[index] as number, actor }],
  );
  if (events.length > 0) await session.events.record(events);
  return ids;
}

/** A transaction of so much holds up its program for a few milliseconds. A call that adds more has one of its own. */
const MOST_ROWS = 100;
const MOST_CHARACTERS = 256 * 1024;

interface Waiting {
  readonly jobs: PlainJobs;
  readonly resolve: (ids: number[]) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Calls that come while a write is under way share the next one, and so do those of the same tick: one transaction, one
 * wait for the disk. Calls are written in their order.
 *
 * @param write whole or not at all; returns the numbers of all jobs
 */
function shareWrites(
  write: (calls: readonly PlainJobs[]) => Promise<number[]>,
): (jobs: PlainJobs) => Promise<number[]> {
  const waiting: Waiting[] = [];
  let isWriting = false;

  const settle = async (calls: readonly Waiting[]): Promise<void> => {
    try {
      const ids = await write(calls.map(({ jobs }) => jobs));
      for (const { jobs, resolve } of calls) resolve(ids.splice(0, jobs.rows.length));
    } catch (error) {
      // A refused row is the fault of one call: all others are as good by themselves.
      if (calls.length > 1 && isRefusal(error)) for (const call of calls) await settle([call]);
      else for (const { reject } of calls) reject(error);
    }
  };
  const writeAll = async (): Promise<void> => {
    isWriting = true;
    await Promise.resolve();
    while (waiting.length > 0) await settle(waiting.splice(0, countFitting(waiting)));
    isWriting = false;
  };

  return (jobs) =>
    new Promise((resolve, reject) => {
      waiting.push({ jobs, resolve, reject });
      if (!isWriting) void writeAll();
    });
}

/** How many of them are written together: at least one. */
function countFitting(calls: readonly Waiting[]): number {
  let [rows, characters, count] = [0, 0, 0];
  for (const { jobs } of calls) {
    rows += jobs.rows.length;
    characters += jobs.rows.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
    if (count > 0 && (rows > MOST_ROWS || characters > MOST_CHARACTERS)) break;
    count += 1;
  }
  return count;
}
