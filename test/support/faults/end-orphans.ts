import { onTestFinished } from 'vitest';
import { queryLog } from '../log/open-log.ts';

/** Ends, after the test, what the runs of a root left running: for tests that kill the runner. */
export function endOrphans(root: string): void {
  onTestFinished(() => {
    for (const { pid } of queryLog<{ pid: number | null }>(root, 'select pid from runs')) {
      if (pid !== null) killGroup(pid);
    }
  });
}

export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
