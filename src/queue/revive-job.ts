import type { Database } from '../store/open-store.ts';
import type { JobRow, JobState } from '../store/schema.ts';
import { hasPendingChildren } from './families.ts';
import { isEnded } from './job-states.ts';
import { refuse } from './refusals.ts';

/** How a job's row looks that begins anew. */
export const asUnfinished = {
  finished_at: null,
  result: null,
  reason: null,
  is_told: 0,
} as const satisfies Partial<JobRow>;

/**
 * In which state a job begins anew: queued, unless it is a child whose parent does not wait for it now, or
 * a parent with a child that still runs, which it waits for.
 *
 * @throws {QueueError} if its parent has ended, or another job has its unique key by now
 */
export async function judgeRevival(
  db: Database,
  job: JobRow,
): Promise<Extract<JobState, 'queued' | 'paused'>> {
  if (isEnded(job.state)) await refuseTakenKey(db, job);
  if (job.parent_id === null) return await judgeParent(db, job);
  const parent = await db
    .selectFrom('jobs')
    .select('state')
    .where('id', '=', job.parent_id)
    .executeTakeFirst();
  const state = parent?.state ?? 'finished';
  if (state === 'paused') return 'queued';
  if (!isEnded(state)) return 'paused';
  throw refuse(
    job,
    `belongs to job ${job.parent_id}, which is ${state} and waits for no child any more; ` +
      'add a new job instead.',
  );
}

/** Of one that has ended, only those children have not that ran then. */
async function judgeParent(db: Database, { id, state }: JobRow): Promise<'queued' | 'paused'> {
  return isEnded(state) && (await hasPendingChildren(db, id)) ? 'paused' : 'queued';
}

async function refuseTakenKey(db: Database, job: JobRow): Promise<void> {
  if (job.unique_key === null) return;
  const other = await db
    .selectFrom('jobs')
    .select('id')
    .where('unique_key', '=', job.unique_key)
    .where('finished_at', 'is', null)
    .executeTakeFirst();
  if (other === undefined) return;
  throw refuse(
    job,
    `cannot be queued again: job ${other.id} has its unique key ` +
      `${JSON.stringify(job.unique_key)}; wait for that one's end, or cancel it.`,
  );
}
