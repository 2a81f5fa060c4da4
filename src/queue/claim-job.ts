import { sql } from 'kysely';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { QueuedJob } from './enqueue-scripts.ts';

/** A job taken by this worker, with the run row that stands for this attempt. */
export interface ClaimedJob extends QueuedJob {
  readonly token: string;
  readonly runId: number;
  readonly attempt: number;
  readonly startedAt: number;
}

/** Takes a queued job and adds its run, in one transaction; null when somebody else has it. */
export function claimJob(
  db: Database,
  job: QueuedJob,
  workerId: number,
  at: number,
): Promise<ClaimedJob | null> {
  return db.transaction().execute(async (transaction) => {
    const claimed = await transaction
      .updateTable('jobs')
      .set({
        state: 'running',
        claimed_by: workerId,
        // No other claim of this job can have it: a worker's id is its own, an attempt happens once.
        claim_token: sql<string>`${`${workerId}:`} || (attempts + 1)`,
        attempts: sql<number>`attempts + 1`,
      })
      .where('id', '=', job.id)
      .where('state', '=', 'queued')
      .returning(['attempts', 'claim_token'])
      .executeTakeFirst();
    if (claimed === undefined) return null;
    const runId = await insertRun(transaction, job, workerId, claimed.attempts, at);
    await recordActivity(transaction, { at, event: 'job-running', workerId, jobId: job.id, runId });
    const token = claimed.claim_token as string;
    return { ...job, token, runId, attempt: claimed.attempts, startedAt: at };
  });
}

/** Which process the run is: what tells later whether it outlived its runner. */
export async function recordRunProcess(
  db: Database,
  runId: number,
  process: { readonly pid: number; readonly startTicks: number | null },
): Promise<void> {
  await db
    .updateTable('runs')
    .set({ pid: process.pid, pid_start_ticks: process.startTicks })
    .where('id', '=', runId)
    .execute();
}

async function insertRun(
  db: Database,
  { id, script, scheduledFor }: QueuedJob,
  workerId: number,
  attempt: number,
  at: number,
): Promise<number> {
  const run = await db
    .insertInto('runs')
    .values({
      job_id: id,
      worker_id: workerId,
      script: script.name,
      tier: script.tier,
      attempt,
      outcome: 'running',
      scheduled_for: scheduledFor,
      started_at: at,
      content_hash: script.contentHash,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return run.id;
}
