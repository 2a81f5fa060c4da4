import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { JobRow } from '../store/schema.ts';
import { invalid } from './job-values.ts';
import type { JobRef } from './queue.ts';
import { noSuchJob, staleClaim } from './refusals.ts';

/** A job as it was referred to; token null: whoever holds it. */
export interface ReadRef {
  readonly id: number;
  readonly token: string | null;
}

/** @throws {QueueError} if no job can have that number, or it is no token */
export function readRef(ref: JobRef): ReadRef {
  const { id, token = null } = typeof ref === 'object' && ref !== null ? ref : { id: ref };
  if (token !== null && typeof token !== 'string') {
    throw invalid("A claim's token", 'the text that the claim gave', token);
  }
  return { id: readJobId(id), token };
}

export function readJobId(id: unknown): number {
  if (Number.isSafeInteger(id) && Number(id) > 0) return id as number;
  throw invalid("A job's number", 'a whole number above 0', id);
}

/**
 * A job of the queue; to be asked in the transaction that changes it.
 *
 * @throws {QueueError} if there is none of that number, or a token is given that does not hold it
 */
export async function findJob(db: Database, ref: JobRef): Promise<JobRow> {
  const { id, token } = readRef(ref);
  const job = await selectRow(db, id);
  if (job === null) throw noSuchJob(id);
  if (token !== null && job.claim_token !== token) throw staleClaim(job);
  return job;
}

/** Null: the queue has none of that number. */
export async function selectRow(db: Database, id: number): Promise<JobRow | null> {
  const [row] = await queryRaw<JobRow>(db, 'select * from jobs where id = ? and tier is null', [
    id,
  ]);
  return row ?? null;
}
