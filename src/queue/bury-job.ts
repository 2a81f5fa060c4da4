import type { Database } from '../store/open-store.ts';
import { endClaim } from './end-claim.ts';
import { endJob } from './end-job.ts';
import { findJob } from './find-job.ts';
import { isWaiting } from './job-states.ts';
import { readPriority } from './job-values.ts';
import type { BuryOptions, JobRef } from './queue.ts';
import { wrongState } from './refusals.ts';

/** Sets a job that runs, or waits to be taken, aside until it is kicked. */
export async function buryJob(
  db: Database,
  ref: JobRef,
  { priority, reason = 'it was buried' }: BuryOptions,
  at: number,
): Promise<void> {
  const ending = {
    kind: 'bury' as const,
    ...(priority !== undefined && { priority: readPriority(priority) }),
  };
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, ref);
    const isRunning = job.state === 'running';
    if (!isRunning && !isWaiting(job.state)) throw wrongState(job, 'bury');
    const end = isRunning ? endClaim : endJob;
    // Whatever the archive says: it is to be kicked.
    await end(transaction, job, ending, { at, workerId: null, reason, missedCap: 0 });
  });
}
