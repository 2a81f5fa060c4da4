import { sql } from 'kysely';
import { recordActivity } from '../../store/events.ts';
import type { Database } from '../../store/store.ts';
import type { QueuedJob } from '../add/scripts.ts';
import { toPolicyColumns } from '../settle/retry-policy.ts';

/** By what a claim is known to whoever ends it. */
export interface Claim {
  readonly id: number;
  readonly token: string;
  readonly runId: number;
  readonly startedAt: number;
  readonly attempt: number;
}

interface Claiming {
  readonly workerId: number;
  readonly at: number;
  readonly timeoutMs: number;
}

/** Takes an open job and adds its run, in one transaction; null when somebody else has it. */
export function claimJob(db: Database, job: QueuedJob, claiming: Claiming): Promise<Claim | null> {
  const { workerId, at } = claiming;
  return db.transaction().execute(async (transaction) => {
    const claimed = await transaction
      .updateTable('jobs')
      .set({
        state: 'running',
        claimed_by: workerId,
        // No other claim of this job can have it: a worker's id is its own, an attempt happens once.
        claim_token: sql<string>`${`${workerId}:`} || (attempts + 1)`,
        attempts: sql<number>`attempts + 1`,
        reason: null,
        // As the script says now: it may have been changed since its job was added.
        ...toPolicyColumns(job.script),
      })
      .where('id', '=', job.id)
      .where('state', 'in', ['queued', 'retrying'])
      .returning(['attempts', 'claim_token'])
      .executeTakeFirst();
    if (claimed === undefined) return null;
    const { attempts: attempt, claim_token } = claimed;
    const runId = await insertRun(transaction, job, attempt, claiming);
    await recordActivity(transaction, { at, event: 'job-running', workerId, jobId: job.id, runId });
    return { id: job.id, token: claim_token as string, runId, attempt, startedAt: at };
  });
}

/** What is known of a run while it goes on. */
export interface RunProgress {
  readonly pid: number;
  readonly startTicks: number | null;
  /** The most memory seen so far; null: none was. */
  readonly maxRssBytes: number | null;
}

/** Tells later whether the run outlived its runner, and how much memory it had when it was last seen. */
export async function recordProgress(
  db: Database,
  runId: number,
  { pid, startTicks, maxRssBytes }: RunProgress,
): Promise<void> {
  await db
    .updateTable('runs')
    .set({ pid, pid_start_ticks: startTicks, max_rss_bytes: maxRssBytes })
    .where('id', '=', runId)
    .where('outcome', '=', 'running')
    .execute();
}

async function insertRun(
  db: Database,
  { id, script, scheduledFor }: QueuedJob,
  attempt: number,
  { workerId, at, timeoutMs }: Claiming,
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
      timeout_ms: timeoutMs,
      content_hash: script.contentHash,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return run.id;
}
