import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 10;

/** Waits until the condition holds, and fails when it does not within the deadline. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 10_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await sleep(POLL_MS);
  }
}
