import { setTimeout as sleep } from 'node:timers/promises';
import { listGroup } from '../process/process-group.ts';

/** What was about to end with its script has ended by then. */
const WAIT_MS = 50;
const POLL_MS = 5;

/**
 * How many processes a script has left behind in its group; 0 without `/proc`. Asking costs nothing
 * where there are none, as with most scripts.
 */
export async function countLeft(pid: number): Promise<number> {
  const deadline = performance.now() + WAIT_MS;
  while (hasGroup(pid)) {
    if (performance.now() > deadline) return listGroup(pid).length;
    await sleep(POLL_MS);
  }
  return 0;
}

/** Zombies count here; they are no longer listed. */
function hasGroup(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
