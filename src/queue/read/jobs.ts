import { isInstant } from '../../base/values.ts';
import type { JobRow } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import { invalid } from '../add/values.ts';
import type { Job, JobRef, JsonValue } from '../api.ts';
import { noSuchJob, staleClaim } from '../errors.ts';

/** A job as it was referred to; token null: whoever holds it. */
interface ReadRef {
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

/** Null: the queue has no job of that number. */
export async function readJob(db: Database, id: number, read?: JsonReader): Promise<Job | null> {
  const row = await selectRow(db, readJobId(id));
  return row === null ? null : toJob(row, read);
}

/** A row of the queue as it is told of; what plain SQL has made of it that cannot be is unknown. */
export function toJob(row: JobRow, read?: JsonReader): Job {
  return {
    id: row.id,
    name: row.name,
    state: row.state,
    data: readStoredJson(row.data, read),
    result: readStoredJson(row.result, read),
    priority: row.priority,
    runAt: toDate(row.run_at) ?? invalidDate(),
    scheduledFor: toDate(row.scheduled_for),
    createdAt: toDate(row.created_at) ?? invalidDate(),
    startedAt: toDate(row.started_at),
    finishedAt: toDate(row.finished_at),
    attempts: row.attempts,
    maxAttempts: row.max_attempts,
    repeat: row.repeat,
    missed: row.missed,
    uniqueKey: row.unique_key,
    group: row.group_key,
    parent: row.parent_id,
    leasedUntil: toDate(row.leased_until),
    reason: row.reason,
    counters: toCounters(row),
  };
}

function toCounters({ reserves, timeouts, releases, buries, kicks, crashes }: JobRow) {
  return { reserves, timeouts, releases, buries, kicks, crashes };
}

/** Null as JSON. Only of a row that the log's own checks would refuse. */
function invalidDate(): Date {
  return new Date(Number.NaN);
}

function toDate(atMs: number | null): Date | null {
  return isInstant(atMs) ? new Date(atMs) : null;
}

/** How JSON is read: by `JSON.parse`, unless it is only to be written again. */
export type JsonReader = (text: string) => unknown;

/** What a row holds as JSON; null where that cannot be read: plain SQL may have written it. */
export function readStoredJson(text: string | null, read: JsonReader = JSON.parse): JsonValue {
  try {
    return text === null ? null : (read(text) as JsonValue);
  } catch {
    return null;
  }
}
