import { sql } from 'kysely';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { cancelQueuedJobs } from './cancel-jobs.ts';

export interface Rescue {
  readonly workerId: number;
  readonly tier: string;
  readonly at: number;
}

/**
 * Ends what dead workers left behind in a tier: runs they were in become `crashed`, the rest is
 * cancelled. To be called by who has taken the tier, before its own jobs are added: then whatever
 * is open there is a dead one's, also of one whose taker-over died itself before it came to this.
 */
export async function rescueJobs(db: Database, rescue: Rescue): Promise<void> {
  if (!(await hasOpenJobs(db, rescue.tier))) return;
  await crashRuns(db, rescue);
  const reason = 'its pass died before it was started';
  await cancelQueuedJobs(db, rescue.tier, { ...rescue, reason });
}

async function hasOpenJobs(db: Database, tier: string): Promise<boolean> {
  const open = await db
    .selectFrom('jobs')
    .select('id')
    .where('tier', '=', tier)
    .where('state', 'in', ['queued', 'running'])
    .where('finished_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return open !== undefined;
}

function crashRuns(db: Database, rescue: Rescue): Promise<void> {
  return db.transaction().execute(async (transaction) => {
    const runs = await transaction
      .selectFrom('runs')
      .innerJoin('workers', 'workers.id', 'runs.worker_id')
      .select(['runs.id', 'runs.job_id', 'workers.pid', 'workers.host'])
      .where('runs.tier', '=', rescue.tier)
      // Written out, not bound: only so the partial index `runs_running` answers it.
      .where('runs.outcome', '=', sql.lit('running'))
      .execute();
    for (const run of runs) await crashRun(transaction, run, rescue);
  });
}

interface LostRun {
  readonly id: number;
  readonly job_id: number;
  readonly pid: number;
  readonly host: string;
}

async function crashRun(db: Database, run: LostRun, { workerId, at }: Rescue): Promise<void> {
  const reason = `the runner (pid ${run.pid} on ${run.host}) died while it ran`;
  await db
    .updateTable('runs')
    .set({ outcome: 'crashed', finished_at: at, reason })
    .where('id', '=', run.id)
    .execute();
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
