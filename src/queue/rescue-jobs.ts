import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { RunRow, WorkerRow } from '../store/schema.ts';
import { cancelQueuedJobs } from './cancel-jobs.ts';

export interface Rescue {
  readonly workerId: number;
  readonly tier: string;
  readonly at: number;
}

/** Ends what dead workers left behind: runs they were in become `crashed`, the rest is cancelled. */
export async function rescueJobs(
  db: Database,
  dead: readonly WorkerRow[],
  { workerId, tier, at }: Rescue,
): Promise<void> {
  for (const worker of dead) await crashRuns(db, worker, workerId, at);
  if (dead.length === 0) return;
  const reason = 'its pass died before it was started';
  await cancelQueuedJobs(db, tier, { workerId, at, reason });
}

function crashRuns(db: Database, dead: WorkerRow, workerId: number, at: number): Promise<void> {
  const reason = `the runner (pid ${dead.pid} on ${dead.host}) died while it ran`;
  return db.transaction().execute(async (transaction) => {
    const runs = await transaction
      .updateTable('runs')
      .set({ outcome: 'crashed', finished_at: at, reason })
      .where('worker_id', '=', dead.id)
      .where('outcome', '=', 'running')
      .returningAll()
      .execute();
    for (const run of runs) await failJob(transaction, run, workerId, at, reason);
  });
}

async function failJob(
  db: Database,
  run: RunRow,
  workerId: number,
  at: number,
  reason: string,
): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ state: 'failed', finished_at: at, claim_token: null, reason })
    .where('id', '=', run.job_id)
    .execute();
  await recordActivity(db, {
    at,
    event: 'job-failed',
    workerId,
    jobId: run.job_id,
    runId: run.id,
    detail: reason,
  });
}
