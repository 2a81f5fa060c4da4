import type { NewEvent, NewJobRow, StoreSession } from '../../store/contract.ts';
import type { JobState, MissedPolicy, StoredEvent } from '../../store/schema.ts';
import { writeRetry } from '../settle/retry-policy.ts';

/** A job of another system's queue, as it is to be here. Instants are UTC epoch milliseconds. */
export interface ImportedJob {
  /** Tells it from every other job of whatever file; the same in a copy, and when it has changed. */
  readonly key: string;
  /** Its parent was imported before, or comes before it. */
  readonly parentKey: string | null;
  /** Whether another job names it as its parent. */
  readonly isParent: boolean;
  readonly name: string;
  readonly state: JobState;
  /** JSON. */
  readonly data: string;
  readonly priority: number;
  readonly runAt: number;
  readonly scheduledFor: number | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly attempts: number;
  /** Null: as its handler says. */
  readonly maxAttempts: number | null;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly leaseMs: number | null;
  readonly reason: string | null;
}

/** What has become of a job that was imported before; null: its row is gone. */
type KnownJob = { readonly id: number; readonly state: JobState } | null;

/** By their keys. */
export type KnownJobs = ReadonlyMap<string, KnownJob>;

/** Prefix of the unique keys of jobs that were imported. */
export const IMPORT_PREFIX = 'import:';

/**
 * Every job that was imported, of whatever file: by its unique key, for as long as its row is there,
 * and by its event, which stays when the row is removed.
 */
export async function readImportedJobs(session: StoreSession): Promise<KnownJobs> {
  const rows = await session.jobs.imported(IMPORT_PREFIX);
  return new Map(rows.map(({ key, id, state }) => [key, id === null ? null : { id, state }]));
}

/**
 * Adds jobs in whatever states they are, all or none. To be called in a transaction.
 *
 * @param choose those that are to be added, given the ones that nobody needs to add again
 */
export async function addImportedJobs(
  session: StoreSession,
  at: number,
  choose: (known: KnownJobs) => Iterable<ImportedJob>,
): Promise<void> {
  // Asked in the transaction: another import may have been quicker.
  const known = await readImportedJobs(session);
  const parents = new Map<string, number>();
  for (const jobs of inBatches(choose(known))) {
    const rows = jobs.map((job) => toRow(job, findParent(job, known, parents)));
    const ids = await session.jobs.add(rows, at);
    for (const [index, { key, isParent }] of jobs.entries()) {
      if (isParent) parents.set(key, ids[index] as number);
    }
    await session.events.record(
      jobs.flatMap((job, index) => eventsOf(job, ids[index] as number, at)),
    );
  }
}

const JOBS_AT_ONCE = 500;

/** So that a parent has its number before its children are added. */
function* inBatches(jobs: Iterable<ImportedJob>): Iterable<readonly ImportedJob[]> {
  let batch: ImportedJob[] = [];
  let parents = new Set<string>();
  for (const job of jobs) {
    const isParentWaiting = job.parentKey !== null && parents.has(job.parentKey);
    if (isParentWaiting || batch.length === JOBS_AT_ONCE) {
      yield batch;
      batch = [];
      parents = new Set();
    }
    batch.push(job);
    if (job.isParent) parents.add(job.key);
  }
  if (batch.length > 0) yield batch;
}

function findParent(
  { key, parentKey }: ImportedJob,
  known: KnownJobs,
  added: ReadonlyMap<string, number>,
): number | null {
  if (parentKey === null) return null;
  const id = added.get(parentKey) ?? known.get(parentKey)?.id;
  if (id === undefined) throw new Error(`${key} comes before its parent ${parentKey}`);
  return id;
}

function toRow(job: ImportedJob, parentId: number | null): NewJobRow {
  return {
    name: job.name,
    state: job.state,
    data: job.data,
    priority: job.priority,
    scheduled_for: job.scheduledFor,
    run_at: job.runAt,
    retry: writeRetry(job.maxAttempts === null ? undefined : job.maxAttempts - 1, undefined),
    repeat: job.repeat,
    missed_policy: job.missed,
    unique_key: job.key,
    concurrency_key: null,
    parent_id: parentId,
    on_child_failure: 'resume',
    lease_ms: job.leaseMs,
    created_at: job.createdAt,
    started_at: job.startedAt,
    finished_at: job.finishedAt,
    attempts: job.attempts,
    reason: job.reason,
  };
}

/** How one that has ended there ended: no run here tells of it. */
function eventsOf(job: ImportedJob, jobId: number, at: number): NewEvent[] {
  const imported = { at, event: 'job-imported' as const, jobId, detail: job.key };
  const event = endEvents[job.state];
  if (event === undefined || job.finishedAt === null) return [imported];
  return [{ at: job.finishedAt, event, jobId, detail: job.reason }, imported];
}

const endEvents: Partial<Record<JobState, StoredEvent>> = {
  failed: 'job-failed',
  cancelled: 'job-cancelled',
};
