import { identifyLost } from '../execution/end-lost-run.ts';
import { readStartTicks } from '../process/process-identity.ts';
import type { OpenRun } from '../queue/rescue-jobs.ts';
import type { Database } from '../store/open-store.ts';

/**
 * Writes down the processes of runs that outlived their worker, where that had no time to: whoever looks
 * at a job's lease sees by it that its handler works on.
 */
export async function noteOrphans(
  db: Database,
  root: string,
  alive: readonly OpenRun[],
): Promise<void> {
  for (const run of alive.filter(({ isQueued }) => isQueued)) {
    const { id: runId, host, bootId, pid, startTicks } = run;
    const found = identifyLost({ root, runId, process: { host, bootId, pid, startTicks } });
    if (found === null || found.pid === pid) continue;
    await db
      .updateTable('runs')
      .set({ pid: found.pid, pid_start_ticks: readStartTicks(found.pid) })
      .where('id', '=', runId)
      .where('outcome', '=', 'running')
      .execute();
  }
}
