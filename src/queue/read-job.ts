import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { readJobId, selectRow } from './find-job.ts';
import type { Job } from './queue.ts';

/** Null: the queue has no job of that number. */
export async function readJob(db: Database, id: number): Promise<Job | null> {
  const row = await selectRow(db, readJobId(id));
  return row === null ? null : toJob(row);
}

/** A row of the queue as it is told of. */
export function toJob(row: JobRow): Job {
  return {
    id: row.id,
    name: row.name,
    state: row.state,
    data: JSON.parse(row.data),
    result: row.result === null ? null : JSON.parse(row.result),
    priority: row.priority,
    runAt: new Date(row.run_at),
    scheduledFor: toDate(row.scheduled_for),
    createdAt: new Date(row.created_at),
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

function toDate(atMs: number | null): Date | null {
  return atMs === null ? null : new Date(atMs);
}
