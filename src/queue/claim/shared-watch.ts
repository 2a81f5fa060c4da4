import type { ChangeWatch, WaitEnd } from '../../store/store.ts';
import type { LogClock } from '../../system/base/clock.ts';

/**
 * Lets any number of callers wait for a change of the log with one watch of its files. Each has its own deadline and
 * signals.
 */
export function shareWatch(watch: ChangeWatch, clock: LogClock): ChangeWatch {
  /**
   * The waits by version: each ends once the log differs from its version; callers that saw the same version share it.
   */
  const underWay = new Map<number, Shared>();
  const share = (since: number): Shared => {
    const found = underWay.get(since);
    if (found !== undefined) return found;
    const nobodyWaits = new AbortController();
    const end = watch.changed(since, null, nobodyWaits.signal).finally(() => {
      if (underWay.get(since) === shared) underWay.delete(since);
    });
    const shared: Shared = { end, nobodyWaits, waiting: 0 };
    underWay.set(since, shared);
    return shared;
  };
  return {
    ...watch,
    changed: async (since, untilMs, ...signals) => {
      if (signals.some(({ aborted }) => aborted)) return 'stopped';
      const shared = share(since);
      shared.waiting += 1;
      try {
        return await firstOf(shared.end, untilMs, clock, signals);
      } finally {
        shared.waiting -= 1;
        if (shared.waiting === 0) {
          if (underWay.get(since) === shared) underWay.delete(since);
          shared.nobodyWaits.abort();
        }
      }
    },
  };
}

interface Shared {
  readonly end: Promise<WaitEnd>;
  /** Releases the files. */
  readonly nobodyWaits: AbortController;
  waiting: number;
}

/** The longest time of a timer; a longer one would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

async function firstOf(
  change: Promise<WaitEnd>,
  untilMs: number | null,
  clock: LogClock,
  signals: readonly AbortSignal[],
): Promise<WaitEnd> {
  let end: (how: WaitEnd) => void = () => {};
  const own = new Promise<WaitEnd>((resolve) => {
    end = resolve;
  });
  const stop = (): void => end('stopped');
  const leftMs = Math.min((untilMs ?? Number.POSITIVE_INFINITY) - clock.now(), LONGEST_TIMER_MS);
  const timer = setTimeout(() => end('due'), Math.max(leftMs, 0));
  for (const signal of signals) signal.addEventListener('abort', stop);
  try {
    return await Promise.race([change, own]);
  } finally {
    clearTimeout(timer);
    for (const signal of signals) signal.removeEventListener('abort', stop);
  }
}
