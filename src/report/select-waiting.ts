import type { Kysely } from 'kysely';
import { type OpenJob, selectOpenJobs } from '../queue/open-jobs.ts';
import type { ActivityLog } from '../store/schema.ts';
import type { WaitingJob, WaitingState } from './status.ts';
import type { TierHolder } from './tier-state.ts';

/** Jobs that are open and not running. */
export async function selectWaiting(
  db: Kysely<ActivityLog>,
  holders: readonly TierHolder[],
): Promise<WaitingJob[]> {
  const open = await selectOpenJobs(db);
  return open.filter(({ state }) => state !== 'running').map((job) => toWaiting(job, holders));
}

function toWaiting(job: OpenJob, holders: readonly TierHolder[]): WaitingJob {
  return {
    script: job.name,
    tier: job.tier,
    state: waitingState(job, holders),
    sinceMs: job.createdAt,
    runAtMs: job.runAt,
    attempts: job.attempts,
    maxAttempts: job.maxAttempts,
    reason: job.reason,
  };
}

/** What a worker has in its hands it comes to; what it has left, or died before, waits for another one. */
function waitingState(job: OpenJob, holders: readonly TierHolder[]): WaitingState {
  if (job.state === 'retrying') return 'retrying';
  const holder = holders.find(({ tier }) => tier === job.tier);
  return holder === undefined || job.reason !== null ? 'deferred' : 'queued';
}
