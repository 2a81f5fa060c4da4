import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { JobState } from '../store/schema.ts';
import { checkJson } from './job-values.ts';
import type { NewJob } from './queue.ts';
import { QueueError } from './queue-error.ts';
import type { NewRow } from './read-new-job.ts';

/** A job that has not ended and has the unique key of another one. */
export interface Existing {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
  readonly parent_id: number | null;
}

/** Null: nobody has that key. */
export async function selectByKey(db: Database, key: string): Promise<Existing | null> {
  const existing = await db
    .selectFrom('jobs')
    .select(['id', 'name', 'state', 'parent_id'])
    .where('unique_key', '=', key)
    .where('finished_at', 'is', null)
    .executeTakeFirst();
  return existing ?? null;
}

/**
 * What becomes of a job that is there already when it is added once more.
 *
 * @throws {QueueError} if it belongs to another family
 */
export async function keepExistingJob(
  db: Database,
  existing: Existing,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<void> {
  refuseOtherFamily(existing, row);
  const { onDuplicate: policy = 'keep' } = job;
  if (policy === 'keep' || existing.state === 'running') return;
  const data = policy === 'merge' ? await mergeData(db, existing.id, row.data) : row.data;
  await db.updateTable('jobs').set({ data }).where('id', '=', existing.id).execute();
  const detail = `${policy}d by another of its unique key`;
  await recordActivity(db, { at, event: 'job-updated', jobId: existing.id, detail });
}

/** By RFC 7396. @throws {QueueError} if that is too much */
async function mergeData(db: Database, id: number, patch: string): Promise<string> {
  const text = 'select json_patch(data, ?) as data from jobs where id = ?';
  const [{ data }] = (await queryRaw<{ data: string }>(db, text, [patch, id])) as [
    { data: string },
  ];
  return checkJson("A job's data, merged,", data);
}

function refuseOtherFamily(existing: Existing, row: NewRow): void {
  if (row.parent_id === null || row.parent_id === existing.parent_id) return;
  const whose = existing.parent_id === null ? 'no child' : `a child of job ${existing.parent_id}`;
  throw new QueueError(
    'wrong-state',
    `Job ${existing.id} has the unique key ${JSON.stringify(row.unique_key)} already and is ${whose}.`,
  );
}
