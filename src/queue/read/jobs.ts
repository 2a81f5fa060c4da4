import type { NewEvent } from '../../store/contract/housekeeping.ts';
import type { JobHead, ListedJobRow } from '../../store/contract/jobs.ts';
import type { StoreSession } from '../../store/contract/store.ts';
import type { JobRow } from '../../store/schema.ts';
import { isInstant } from '../../system/base/values.ts';
import { invalid } from '../add/values.ts';
import type { Job, JobRef, JsonValue, ListedJob } from '../api.ts';
import { expiredClaim, noSuchJob, staleClaim } from '../errors.ts';
import { LEASE_GRACE_MS, readRetry } from '../settle/retry-policy.ts';

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

/** A job of somebody's worker that has not begun yet, or whose run is too short to be known of. */
export class JobIsBeginning extends Error {}

/** What a verb asks the store with. */
export interface VerbSession extends StoreSession {
  /** When the verb was called: what waits for the log's lock is not late for that. Epoch milliseconds. */
  readonly askedAt: number;
  /** Whether a job that is claimed counts as running; else it is waited for, as it begins in a moment. */
  readonly takesClaimed?: boolean;
  /** Who asks, through the API; null or none: a worker, or somebody at a shell. */
  readonly actor?: string | null;
}

/** Records what else would not tell who did it. */
export async function recordActor({ actor = null, events }: VerbSession, done: readonly NewEvent[]): Promise<void> {
  if (actor !== null) await events.record(done);
}

/**
 * A job of the queue; to be asked in the transaction that changes it.
 *
 * @throws {QueueError} if there is none of that number, or a token is given that does not hold it, or no longer
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

/** Whoever looks takes the job back from then on: that nobody has looked yet makes no difference. */
async function hasExpired({ claims, askedAt }: VerbSession, { id, lease_expires_at }: JobHead): Promise<boolean> {
  if (lease_expires_at === null || lease_expires_at >= askedAt) return false;
  const expired = await claims.expired(askedAt, LEASE_GRACE_MS);
  // That of a worker of the runner is over only once it was given more time.
  return expired.some(({ job, workerId }) => job.id === id && workerId === null);
}

/**
 * Null: the queue has none of that number.
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

/** Null: the queue has no job of that number. */
export async function readJob(session: StoreSession, id: number, read?: JsonReader): Promise<Job | null> {
  const [row] = await session.jobs.wholeById([readJobId(id)]);
  return row === undefined ? null : await toJob(session, row, read);
}

/** The same as a list has it. */
export async function readListedJob(session: StoreSession, id: number, read?: JsonReader): Promise<ListedJob | null> {
  const [row] = await session.jobs.listById([readJobId(id)]);
  return row === undefined ? null : await toListedJob(session, row, read);
}

/** A row of the queue as it is told of; what plain SQL has made of it that cannot be is unknown. */
export async function toJob(session: StoreSession, row: JobRow | ListedJobRow, read?: JsonReader): Promise<Job> {
  const { retries } = row.retry === null ? { retries: null } : readRetry(row.retry);
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
    counters: await session.jobs.counters(row.id),
  };
}

/** The same of a list's row. */
export async function toListedJob(session: StoreSession, row: ListedJobRow, read?: JsonReader): Promise<ListedJob> {
  return {
    ...(await toJob(session, row, read)),
    dataBytes: row.data === null ? row.data_bytes : null,
    resultBytes: row.result === null ? row.result_bytes : null,
  };
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
