import { setTimeout as sleep } from 'node:timers/promises';

/** Other processes end within seconds, as a rule: 5 s in all. */
const DELAYS_MS = [100, 200, 400, 800, 1600, 1900];

/** Full for the moment: processes, memory, open files of the whole host. */
const passing = ['EAGAIN', 'ENOMEM', 'ENFILE'];

/** Tries again and again to start a process where the host has no room for it; not once stopped. */
export async function withBackoff<T>(
  start: () => Promise<T>,
  stop: AbortSignal,
  delaysMs: readonly number[] = DELAYS_MS,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const [delayMs, ...rest] = delaysMs;
    const isPassing = passing.includes((error as NodeJS.ErrnoException).code ?? '');
    if (!isPassing || delayMs === undefined || stop.aborted) throw error;
    await sleep(delayMs, undefined, { signal: stop }).catch(() => {});
    if (stop.aborted) throw error;
    return await withBackoff(start, stop, rest);
  }
}
