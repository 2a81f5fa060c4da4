import type { LogClock } from '../../system/base/clock.ts';
import type { ChangeWatch, WaitEnd } from '../contract/store.ts';
import type { ServerSession } from './session.ts';

/** The safety net where the server tells of changes, should it not. */
const SLOW_POLL_MS = 2_000;

/** Where it does not, who waits looks by itself: soon after there was something to do, and less and less often. */
const FIRST_POLL_MS = 25;
const POLL_GROWTH = 1.5;
const LONGEST_POLL_MS = 1_000;

/** Who is woken for nothing again and again rests after each time: else all who wait would ask after each commit. */
const VAIN_WAKES = 4;
const FIRST_REST_MS = 10;
const LONGEST_REST_MS = 250;
const QUIET_MS = 1_000;

/** A server tells of others' commits, or whoever waits is told to look from time to time. */
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
      // What happened before may be news.
      if (isTold) change();
    } catch {
      // Whoever looks for work meets the same, and says so.
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
      // Nobody tells: what was read a moment ago may be old.
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
