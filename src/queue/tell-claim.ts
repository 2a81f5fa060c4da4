import type { Database } from '../store/open-store.ts';
import type { ClaimedRow } from './claim-jobs.ts';
import { readEndedChildren } from './families.ts';
import type { ClaimedJob, JsonValue } from './queue.ts';
import { toJob } from './read-job.ts';
import { type JsonReader, readStoredJson } from './stored-json.ts';

/** A claim as it is told to who asked for it, with what belongs to the job's family. */
export async function tellClaim(
  db: Database,
  { job, claim }: ClaimedRow,
  read: JsonReader,
): Promise<ClaimedJob> {
  return {
    ...toJob(job, read),
    token: claim.token,
    attempt: claim.attempt,
    parentData: job.parent_id === null ? null : await readData(db, job.parent_id, read),
    children: await readEndedChildren(db, job.id, read),
  };
}

async function readData(db: Database, id: number, read: JsonReader): Promise<JsonValue> {
  const row = await db.selectFrom('jobs').select('data').where('id', '=', id).executeTakeFirst();
  return readStoredJson(row?.data ?? null, read);
}
