import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 10;

/** Loaded hosts take their time; a test has twice as long. */
const LONGEST_MS = 90_000;

/** Waits until the condition holds, and fails when it does not within the deadline. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = LONGEST_MS,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await sleep(POLL_MS);
  }
}
