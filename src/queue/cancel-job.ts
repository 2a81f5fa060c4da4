import type { Database } from '../store/open-store.ts';
import { endJob } from './end-job.ts';
import { type EndingContext, factsOf } from './end-running-job.ts';
import { findJob } from './find-job.ts';
import { wrongState } from './refusals.ts';

/**
 * Ends a job that waits, or has failed, as cancelled, and with it what waits of its children; one that
 * is cancelled stays as it is.
 */
export async function cancelJob(db: Database, id: number, context: EndingContext): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, id);
    if (job.state === 'cancelled') return;
    if (job.state === 'running' || job.state === 'finished') throw wrongState(job, 'cancel');
    await endJob(transaction, job, { kind: 'cancel' }, factsOf(context, 'it was cancelled'));
  });
}
