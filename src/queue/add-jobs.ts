import { describeFound } from '../config/describe-found.ts';
import type { Database } from '../store/open-store.ts';
import { stateOfNewChild } from './families.ts';
import { inPortions, insertJobs } from './insert-jobs.ts';
import { keepExistingJob, selectByKey } from './keep-existing-job.ts';
import type { AddedJob, NewJob } from './queue.ts';
import { QueueError } from './queue-error.ts';
import { type NewRow, readNewJob } from './read-new-job.ts';

export interface Adding {
  /** UTC epoch milliseconds. */
  readonly at: number;
}

/**
 * Adds jobs to the queue in their order, all or none.
 *
 * @returns their numbers; of one whose unique key is taken, and which is not added, that of the job that has it
 * @throws {QueueError} that names the first wrong one
 */
export async function addJobs(
  db: Database,
  jobs: readonly NewJob<unknown>[],
  { at }: Adding,
): Promise<AddedJob[]> {
  const rows: NewRow[] = [];
  for (const [index, job] of jobs.entries()) {
    rows.push(
      await readNewJob(job, at).catch((error) => throwNamed(error, job, index, jobs.length)),
    );
  }
  if (rows.length === 0) return [];
  return await db.transaction().execute(async (transaction) => {
    if (rows.every(isPlain)) return await insertAll(transaction, rows);
    const added: AddedJob[] = [];
    for (const [index, row] of rows.entries()) {
      added.push(await addOne(transaction, row, jobs[index] as NewJob<unknown>, at));
    }
    return added;
  });
}

/** In a list, the message says which one is wrong. */
function throwNamed(
  error: unknown,
  { name }: NewJob<unknown>,
  index: number,
  count: number,
): never {
  if (!(error instanceof QueueError) || count === 1) throw error;
  const which = `Job ${index + 1} of ${count} (${describeFound(name)})`;
  throw new QueueError(error.code, `${which}: ${error.message}`);
}

/** Nothing in the log can keep it from being added. */
function isPlain({ unique_key, parent_id }: NewRow): boolean {
  return unique_key === null && parent_id === null;
}

async function insertAll(db: Database, rows: readonly NewRow[]): Promise<AddedJob[]> {
  const inserted: AddedJob[] = [];
  for (const some of inPortions(rows)) {
    for (const id of await insertJobs(db, some)) inserted.push({ id, added: true });
  }
  return inserted;
}

async function addOne(
  db: Database,
  row: NewRow,
  job: NewJob<unknown>,
  at: number,
): Promise<AddedJob> {
  const existing = row.unique_key === null ? null : await selectByKey(db, row.unique_key);
  if (existing !== null) {
    await keepExistingJob(db, existing, row, job, at);
    return { id: existing.id, added: false };
  }
  const state = row.parent_id === null ? 'queued' : await stateOfNewChild(db, row.parent_id);
  const [added] = await insertAll(db, [{ ...row, state }]);
  return added as AddedJob;
}
