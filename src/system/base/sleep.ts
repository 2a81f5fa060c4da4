import { setTimeout } from 'node:timers/promises';

/** Waits this long, or until `stop`: a wait that is stopped is over, and has not failed. */
export async function sleepUntil(stop: AbortSignal, ms: number): Promise<void> {
  try {
    await setTimeout(ms, undefined, { signal: stop });
  } catch (error) {
    if (!stop.aborted) throw error;
  }
}
