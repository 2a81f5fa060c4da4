import type { LogClock } from '../../system/base/clock.ts';
import type { ChangeWatch, WaitEnd } from '../store.ts';
import type { ServerSession } from './session.ts';

/** How often the log is polled if the server sends notices, in milliseconds: a notice may be lost. */
const SLOW_POLL_MS = 2_000;

/**
 * Without notices, a waiting session polls: soon after it has found work, then less and less often, in milliseconds.
 */
const FIRST_POLL_MS = 25;
const POLL_GROWTH = 1.5;
const LONGEST_POLL_MS = 1_000;

/**
 * A session that is woken in vain several times in a row rests after each time, in milliseconds: otherwise all waiting
 * sessions would query after each commit.
 */
const VAIN_WAKES = 4;
const FIRST_REST_MS = 10;
const LONGEST_REST_MS = 250;
const QUIET_MS = 1_000;

/** Watches by the server's notices of others' commits, or by polling if it sends none. */
export function watchServer(session: Pick<ServerSession, 'listen'>, clock: LogClock): ChangeWatch {
  const closing = new AbortController();
  const waiting = new Set<() => void>();
  let version = 0;
  let pollMs = FIRST_POLL_MS;
  let isTold = false;
  let isListening = false;
  const change = (): void => {
    version += 1;
    for (const wake of [...waiting]) wake();
  };
  const listen = async (): Promise<void> => {
    isListening = true;
    try {
      isTold = await session.listen(change);
      // Changes made before the first notice may be news.
      if (isTold) change();
    } catch {
      // The query for work that follows meets the same failure, and reports it.
      isListening = false;
    }
  };
  const pollRestMs = (): number => {
    if (isTold) return SLOW_POLL_MS;
    const rest = pollMs;
    pollMs = Math.min(pollMs * POLL_GROWTH, LONGEST_POLL_MS);
    return rest;
  };
  let vainWakes = 0;
  let wokenAt = Number.NEGATIVE_INFINITY;
  const wakeUp = (): WaitEnd => {
    vainWakes = performance.now() - wokenAt > QUIET_MS ? 1 : vainWakes + 1;
    wokenAt = performance.now();
    return 'changed';
  };
  const vainRestMs = (): number =>
    vainWakes <= VAIN_WAKES ? 0 : Math.min(FIRST_REST_MS * 2 ** (vainWakes - VAIN_WAKES), LONGEST_REST_MS);
  let lookedAt = Number.NEGATIVE_INFINITY;
  return {
    look: () => {
      if (!isListening) void listen();
      // Without notices, values read a moment ago may be old.
      if (!isTold && performance.now() - lookedAt > LONGEST_REST_MS) {
        lookedAt = performance.now();
        version += 1;
      }
      return version;
    },
    found: () => {
      pollMs = FIRST_POLL_MS;
      vainWakes = 0;
    },
    changed: async (since, untilMs, ...others) => {
      const signals = [closing.signal, ...others];
      if (signals.some(({ aborted }) => aborted)) return 'stopped';
      const rested = vainRestMs() === 0 ? 'changed' : await sleep(new Set(), vainRestMs(), untilMs, clock, signals);
      if (rested !== 'changed') return rested;
      if (version !== since) return wakeUp();
      const end = await sleep(waiting, pollRestMs(), untilMs, clock, signals);
      return end === 'changed' && version !== since ? wakeUp() : end;
    },
    close: () => closing.abort(),
  };
}

/** Until one of them happens: news, the next look, the instant, a signal. */
function sleep(
  waiting: Set<() => void>,
  restMs: number,
  untilMs: number | null,
  clock: LogClock,
  signals: readonly AbortSignal[],
): Promise<WaitEnd> {
  return new Promise((resolve) => {
    const leftMs = untilMs === null ? Number.POSITIVE_INFINITY : Math.max(untilMs - clock.now(), 0);
    const end = (how: WaitEnd): void => {
      clearTimeout(timer);
      waiting.delete(wake);
      for (const signal of signals) signal.removeEventListener('abort', stop);
      resolve(how);
    };
    const wake = (): void => end('changed');
    const stop = (): void => end('stopped');
    const timer = setTimeout(() => end(leftMs <= restMs ? 'due' : 'changed'), Math.min(leftMs, restMs));
    waiting.add(wake);
    for (const signal of signals) signal.addEventListener('abort', stop);
  });
}
