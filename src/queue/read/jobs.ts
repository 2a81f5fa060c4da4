import type { JobRow } from '../../store/schema.ts';
import type { JobHead, ListedJobRow } from '../../store/shared/job-columns.ts';
import type { NewEvent } from '../../store/statements/events.ts';
import { jobListsOf } from '../../store/statements/list-jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import { isInstant } from '../../system/base/values.ts';
import { invalid, readId } from '../add/values.ts';
import type { Job, JobRef, JsonValue, ListedJob } from '../api.ts';
import { expiredClaim, noSuchJob, staleClaim } from '../errors.ts';
import { readRetry } from '../settle/own-retry.ts';
import { LEASE_GRACE_MS } from '../settle/retry-policy.ts';

/** A reference to a job; a null token stands for any holder. */
export interface ReadRef {
  readonly id: number;
  readonly token: string | null;
}

/** @throws {QueueError} if the number is impossible, or the token is not text */
export function readRef(ref: JobRef): ReadRef {
  const { id, token = null } = typeof ref === 'object' && ref !== null ? ref : { id: ref };
  if (token !== null && typeof token !== 'string') {
    throw invalid("A claim's token", 'the text that the claim gave', token);
  }
  return { id: readJobId(id), token };
}

export function readJobId(id: unknown): number {
  return readId("A job's number", 'a whole number above 0', id);
}

/** A job that a worker has claimed but not begun, or whose run is too short to be recorded as begun. */
export class JobIsBeginning extends Error {}

/** A session for the verbs of the queue. */
export interface VerbSession extends StoreSession {
  /** When the verb was called, in epoch milliseconds: a wait for the log's lock does not make a call late. */
  readonly askedAt: number;
  /** Whether a claimed job counts as running; otherwise the verb waits for it, because it begins in a moment. */
  readonly takesClaimed?: boolean;
  /** The caller of the API; null or absent: a worker, or a person at a shell. */
  readonly actor?: string | null;
}

/** Records who made a change that otherwise would not name its author. */
export async function recordActor({ actor = null, events }: VerbSession, done: readonly NewEvent[]): Promise<void> {
  if (actor !== null) await events.record(done);
}

/**
 * Finds a job of the queue. Call it in the transaction that changes the job.
 *
 * @throws {QueueError} if no job has the number, or the given token does not hold it, or no longer does
 * @throws {JobIsBeginning} if it may begin at any moment
 */
export async function findJob(session: VerbSession, ref: JobRef): Promise<JobHead> {
  const { id, token } = readRef(ref);
  const job = await findRow(session, id);
  if (job === null) throw noSuchJob(id);
  if (token !== null && (job.claim_token !== token || job.state !== 'running')) throw staleClaim(job);
  if (token !== null && (await hasExpired(session, job))) throw expiredClaim(job);
  return job;
}

/** From its expiry on any look takes the job back; it makes no difference that nobody has looked yet. */
async function hasExpired({ claims, askedAt }: VerbSession, { id, lease_expires_at }: JobHead): Promise<boolean> {
  if (lease_expires_at === null || lease_expires_at >= askedAt) return false;
  const expired = await claims.expired(askedAt, LEASE_GRACE_MS);
  // A claim of the runner's worker is over only after it was given more time.
  return expired.some(({ job, workerId }) => job.id === id && workerId === null);
}

/**
 * Null: no job has this number.
 *
 * @throws {JobIsBeginning} if it may begin at any moment
 */
export async function findRow(session: VerbSession, id: number): Promise<JobHead | null> {
  await session.jobs.lock([id]);
  const [job] = await session.jobs.byId([id]);
  if (job?.state !== 'claimed') return job ?? null;
  if (session.takesClaimed !== true) throw new JobIsBeginning();
  return { ...job, state: 'running', attempts: job.attempts + 1 };
}

/** Null: no job has this number. */
export async function readJob(session: StoreSession, id: number, read?: JsonReader): Promise<Job | null> {
  const [row] = await session.jobs.wholeById([readJobId(id)]);
  return row === undefined ? null : await toJob(session, row, read);
}

/** Like `readJob`, in the form of a list. */
export async function readListedJob(session: StoreSession, id: number, read?: JsonReader): Promise<ListedJob | null> {
  const [row] = await jobListsOf(session.statements).listById([readJobId(id)]);
  return row === undefined ? null : await toListedJob(session, row, read);
}

/** Converts a row of the queue to a job. An impossible value that plain SQL has written becomes unknown. */
export async function toJob(session: StoreSession, row: JobRow | ListedJobRow, read?: JsonReader): Promise<Job> {
  const { retries } = readRetry(row.retry ?? '');
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
    maxAttempts: retries === null ? null : retries + 1,
    repeat: row.repeat,
    missed: row.missed_policy,
    uniqueKey: row.unique_key,
    group: row.concurrency_key,
    parent: row.parent_id,
    leaseMs: row.lease_ms,
    leasedUntil: toDate(row.lease_expires_at),
    reason: row.reason,
    counters: await jobListsOf(session.statements).counters(row.id),
  };
}

/** Like `toJob`, for a row of a list. */
export async function toListedJob(session: StoreSession, row: ListedJobRow, read?: JsonReader): Promise<ListedJob> {
  return {
    ...(await toJob(session, row, read)),
    dataBytes: row.data === null ? row.data_bytes : null,
    resultBytes: row.result === null ? row.result_bytes : null,
  };
}

/** JSON shows it as null. It occurs only in a row that the log's own checks would refuse. */
function invalidDate(): Date {
  return new Date(Number.NaN);
}

function toDate(atMs: number | null): Date | null {
  return isInstant(atMs) ? new Date(atMs) : null;
}

/** Parses JSON: `JSON.parse`, unless the value is only written again. */
export type JsonReader = (text: string) => unknown;

/** Reads the JSON of a row; null if it is invalid: plain SQL may have written it. */
export function readStoredJson(text: string | null, read: JsonReader = JSON.parse): JsonValue {
  try {
    return text === null ? null : (read(text) as JsonValue);
  } catch {
    return null;
  }
}
