import type { StateFolder } from '../config/state-folder.ts';
import type { Store } from './open-store.ts';
import { type WaitEnd, waitForChange } from './wait-for-change.ts';
import { createWakePace } from './wake-pace.ts';

/** Lets whoever finds nothing to do sleep until another process has written to the log. */
export interface LogWatch {
  /** Which version of the log is seen now. To be asked before looking for work, not after it. */
  look(): number;
  /**
   * Sleeps until another connection has committed since that look, the clock shows `untilMs` (null:
   * never), or a signal tells to stop; not at all if that is so already. If something is wrong with
   * the log, that counts as a change: whoever looks for work then meets it.
   */
  changed(since: number, untilMs: number | null, ...signals: AbortSignal[]): Promise<WaitEnd>;
  /**
   * There was something to do. Who never finds anything while others write all the time is woken less
   * and less often, in the end each 20 ms.
   */
  found(): void;
  /** Ends all waits as stopped. */
  close(): void;
}

/** The safety net, should nothing be told of a write. */
const SLOW_POLL_MS = 2_000;

/** Where files are not watched, or other machines write too: nobody tells of those. */
const BLIND_POLL_MS = 500;

/** The files are watched only while somebody waits: a worker's own writes would wake it up. */
export function watchLog(
  folder: StateFolder,
  store: Pick<Store, 'dataVersion' | 'journalMode'>,
): LogWatch {
  const closing = new AbortController();
  const pace = createWakePace();
  const slowPollMs = store.journalMode() === 'wal' ? SLOW_POLL_MS : BLIND_POLL_MS;
  let last = Number.NaN;
  const read = (): number => {
    last = store.dataVersion() ?? last;
    return last;
  };
  return {
    look: read,
    found: () => pace.noteFound(),
    changed: async (since, untilMs, ...signals) => {
      const end = await waitForChange({
        folder,
        hasChanged: () => differs(read, since),
        untilMs,
        signals: [closing.signal, ...signals],
        restMs: pace.restMs(),
        slowPollMs,
        blindPollMs: BLIND_POLL_MS,
      });
      if (end === 'changed') pace.noteWake();
      return end;
    },
    close: () => closing.abort(),
  };
}

function differs(read: () => number, since: number): boolean {
  try {
    return !Object.is(read(), since);
  } catch {
    return true;
  }
}
