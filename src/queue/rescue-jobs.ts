import { sql } from 'kysely';
import type { Database } from '../store/open-store.ts';
import type { FinishedRun } from '../store/schema.ts';
import { cancelQueuedJobs } from './cancel-jobs.ts';
import { type Claim, finishJob } from './finish-job.ts';

export interface Rescue {
  readonly workerId: number;
  readonly tier: string;
  readonly at: number;
}

/** A run whose runner is gone, and by what its process can be told. */
export interface LostRun {
  readonly id: number;
  readonly jobId: number;
  readonly script: string;
  readonly token: string;
  readonly startedAt: number;
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly bootId: string | null;
  readonly host: string;
  /** "pid 4711 on web3" */
  readonly runner: string;
}

/** How a lost run ended; null: its process outlived its runner and still runs. */
export type EndLostRun = (run: LostRun) => Promise<FinishedRun | null>;

export interface Rescued {
  readonly ended: readonly LostRun[];
  readonly alive: readonly LostRun[];
}

/**
 * Ends what dead workers left behind in a tier: each run by what is known of it, and what was not
 * begun is cancelled. To be called by who has taken the tier, before its own jobs are added: then
 * whatever is open there is a dead one's, also of one whose taker-over died before it came to this.
 */
export async function rescueJobs(
  db: Database,
  rescue: Rescue,
  endLostRun: EndLostRun,
): Promise<Rescued> {
  const ended: LostRun[] = [];
  const alive: LostRun[] = [];
  for (const run of await selectLostRuns(db, rescue.tier)) {
    const end = await endLostRun(run);
    if (end === null) alive.push(run);
    else if (await finishJob(db, claimOf(run), rescue.workerId, end, rescue.at)) ended.push(run);
  }
  await cancelQueuedJobs(db, rescue.tier, {
    ...rescue,
    reason: 'its pass died before it was started',
  });
  return { ended, alive };
}

function claimOf({ id, jobId, token, startedAt }: LostRun): Claim {
  return { id: jobId, token, runId: id, startedAt };
}

/** Whether there is anything to rescue: one look at an index. */
export async function hasOpenJobs(db: Database, tier: string): Promise<boolean> {
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

async function selectLostRuns(db: Database, tier: string): Promise<LostRun[]> {
  const rows = await db
    .selectFrom('runs')
    .innerJoin('workers', 'workers.id', 'runs.worker_id')
    .innerJoin('jobs', 'jobs.id', 'runs.job_id')
    .select(['runs.id', 'runs.job_id as jobId', 'runs.script', 'jobs.claim_token as token'])
    .select(['runs.started_at as startedAt', 'runs.pid', 'runs.pid_start_ticks as startTicks'])
    .select(['workers.host', 'workers.boot_id as bootId', 'workers.pid as runnerPid'])
    .where('runs.tier', '=', tier)
    .$narrowType<{ token: string }>()
    // Written out, not bound: only so the partial index `runs_running` answers it.
    .where('runs.outcome', '=', sql.lit('running'))
    .execute();
  return rows.map((row) => ({ ...row, runner: `pid ${row.runnerPid} on ${row.host}` }));
}
