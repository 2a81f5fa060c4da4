import { isInstant } from '../config/instant.ts';
import type { Database } from '../store/open-store.ts';
import type { JobRow } from '../store/schema.ts';
import { readJobId, selectRow } from './find-job.ts';
import type { Job } from './queue.ts';
import { type JsonReader, readStoredJson } from './stored-json.ts';

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
