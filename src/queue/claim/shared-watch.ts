import type { ChangeWatch } from '../../store/store.ts';
import type { LogClock } from '../../system/base/clock.ts';

/** Ends when the log may have changed, at that instant, or when the signal is aborted. */
type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<void>;

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
export function shareWatch(watch: ChangeWatch, clock: LogClock) {
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
