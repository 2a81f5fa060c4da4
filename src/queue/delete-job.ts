import { recordActivity } from '../store/activity.ts';
import { deleteJobs } from '../store/delete-rows.ts';
import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { tellParent, unfinishedStates } from './families.ts';
import { findJob } from './find-job.ts';
import type { JobRef } from './queue.ts';
import { refuse, wrongState } from './refusals.ts';

/**
 * Removes a job that does not run, or that is held by the claim given, with its runs and its children.
 *
 * @returns names of output files that no run has any more
 */
export async function deleteJob(db: Database, ref: JobRef, at: number): Promise<readonly string[]> {
  return await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, ref);
    // With a token that holds no more, `findJob` has refused.
    const isHeld = typeof ref === 'object' && ref.token !== undefined;
    if (job.state === 'running' && !isHeld) throw wrongState(job, 'delete');
    const children = await selectChildren(transaction, job);
    const files = await removeJobs(transaction, [...children, job], at);
    await tellParent(transaction, job.parent_id, at);
    return files;
  });
}

interface Removed {
  readonly id: number;
  readonly name: string;
}

/** @throws {QueueError} if one of them has not ended: it would be left alone */
async function selectChildren(db: Database, job: JobRow): Promise<Removed[]> {
  const children = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state'])
    .where('parent_id', '=', job.id)
    .execute();
  const pending = children.filter(({ state }) => unfinishedStates.some((each) => each === state));
  if (pending.length === 0) return children;
  const ids = pending.map(({ id }) => id).join(', ');
  const jobs = pending.length === 1 ? `a child that has` : `${pending.length} children that have`;
  throw refuse(job, `has ${jobs} not ended (${ids}); cancel or delete them first.`);
}

async function removeJobs(
  db: Database,
  jobs: readonly Removed[],
  at: number,
): Promise<readonly string[]> {
  const { outputFiles } = await deleteJobs(db, jobs);
  await recordActivity(
    db,
    jobs.map(({ id, name }) => ({
      at,
      event: 'job-deleted' as const,
      jobId: id,
      detail: name,
    })),
  );
  return outputFiles;
}
