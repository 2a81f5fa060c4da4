import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { hasPendingChildren } from './families.ts';
import { readJobId, selectRow } from './find-job.ts';
import { invalid, readJobName } from './job-values.ts';
import type { RequeueOptions } from './queue.ts';
import { wrongState } from './refusals.ts';
import { asUnfinished, judgeRevival } from './revive-job.ts';

/**
 * Queues jobs anew from whatever state they are in, due since they were added; all or none. Numbers that
 * no job has are passed over. A claim that one of them is held by is over.
 *
 * @returns how many there were
 */
export async function requeueJobs(
  db: Database,
  ids: readonly number[],
  options: RequeueOptions,
  at: number,
): Promise<number> {
  if (!Array.isArray(ids)) throw invalid('What is requeued', 'a list of numbers of jobs', ids);
  const unique = [...new Set(ids.map(readJobId))];
  const renamed = options.name === undefined ? {} : { name: readJobName(options.name) };
  return await db.transaction().execute(async (transaction) => {
    let count = 0;
    for (const id of unique) {
      const job = await selectRow(transaction, id);
      if (job === null) continue;
      await requeue(transaction, job, { renamed, forgetTry: options.forgetTry === true, at });
      count += 1;
    }
    return count;
  });
}

interface Requeueing {
  readonly renamed: { readonly name?: string };
  readonly forgetTry: boolean;
  readonly at: number;
}

async function requeue(db: Database, job: JobRow, requeueing: Requeueing): Promise<void> {
  const { renamed, forgetTry, at } = requeueing;
  const isParent = job.state === 'paused' && (await hasPendingChildren(db, job.id));
  if (isParent) throw wrongState(job, 'requeue');
  const state = await judgeRevival(db, job);
  await db
    .updateTable('jobs')
    .set({
      ...asUnfinished,
      ...renamed,
      state,
      run_at: job.created_at,
      attempts: Math.max(job.attempts - (forgetTry ? 1 : 0), 0),
      claimed_by: null,
      claim_token: null,
      leased_until: null,
    })
    .where('id', '=', job.id)
    .execute();
  if (job.state === 'running') await endOpenRun(db, job, requeueing);
  await recordActivity(db, { at, event: 'job-requeued', jobId: job.id });
}

/** What its worker may tell of it later is refused. */
async function endOpenRun(
  db: Database,
  { id }: JobRow,
  { forgetTry, at }: Requeueing,
): Promise<void> {
  const ended = forgetTry
    ? { outcome: 'released' as const, reason: 'its job was requeued: it never reached a worker' }
    : { outcome: 'crashed' as const, reason: 'its job was requeued while it ran' };
  await db
    .updateTable('runs')
    .set({ ...ended, finished_at: at })
    .where('job_id', '=', id)
    .where('outcome', '=', 'running')
    .execute();
}
