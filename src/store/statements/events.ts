import { columnsOf } from '../columns.ts';
import { addRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { tables } from '../tables.ts';
import type { StoredEvent } from '../words.ts';
import { LateRows } from './counted.ts';
import type { RunRef } from './runs.ts';

export interface NewEvent {
  readonly at: number;
  readonly event: StoredEvent;
  readonly workerId?: number | null;
  readonly jobId?: number | null;
  readonly runId?: number | null;
  readonly detail?: string | null;
  /** The caller of the API who asked for it. */
  readonly actor?: string | null;
}

export function eventsOf(db: Statements) {
  return {
    record: (events: readonly NewEvent[]) => recordEvents(db, events),
    /** The first person who asked for the end of the run; null: nobody did. The job's number is never used again. */
    whoStops: async ({ runId, jobId }: RunRef) =>
      (
        await db.first<{ actor: string | null }>(
          `select actor from events where job_id = ? and run_id = ? and event = 'run-stop-requested'
           order by id limit 1`,
          [jobId, runId],
        )
      )?.actor ?? null,
    /** When the newest worker, job or event was recorded, the latest of them; null: the log is empty. */
    newestAt: async () =>
      (
        await db.first<{ at: number | null }>(
          `select max(at) as at from (
             select * from (select started_at as at from workers order by id desc limit 1) as newest_worker
             union all select * from (select created_at from jobs order by id desc limit 1) as newest_job
             union all select * from (select at from events order by id desc limit 1) as newest_event) as newest`,
        )
      )?.at ?? null,
  };
}

const eventColumns = columnsOf(tables.events, ['id']);

async function recordEvents(db: Statements, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(({ at, event, workerId = null, jobId = null, runId = null, detail = null, actor = null }) => [
    ...[at, event, workerId, jobId, runId, detail, actor],
  ]);
  const ids = await addRows(db, 'events', eventColumns, rows);
  const ends = events.flatMap(({ at, event }, index) =>
    event === 'job-failed' || event === 'job-buried' ? [{ id: ids[index] as number, at }] : [],
  );
  await new LateRows(db).events(ends);
}
