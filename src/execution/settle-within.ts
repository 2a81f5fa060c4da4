import { setTimeout as sleep } from 'node:timers/promises';

/** Whether it has settled in time. */
export async function settleWithin(promise: Promise<unknown>, withinMs: number): Promise<boolean> {
  const timer = new AbortController();
  const late = sleep(withinMs, false, { signal: timer.signal }).catch(() => false);
  const isInTime = await Promise.race([promise.then(() => true), late]);
  timer.abort();
  return isInTime;
}
