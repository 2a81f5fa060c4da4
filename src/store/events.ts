import type { ActivityEvent } from './schema.ts';
import { inPages } from './sqlite/queries.ts';
import type { Database } from './store.ts';

export interface Activity {
  readonly at: number;
  readonly event: ActivityEvent;
  readonly workerId?: number | null;
  readonly jobId?: number | null;
  readonly runId?: number;
  readonly detail?: string | null;
}

/** Adds to the activity, any number at once; to be called in the transaction of the change it tells of. */
export async function recordActivity(
  db: Database,
  told: Activity | readonly Activity[],
): Promise<void> {
  for (const page of inPages([told].flat())) {
    await db.insertInto('activity').values(page.map(toRow)).execute();
  }
}

function toRow(activity: Activity) {
  return {
    at: activity.at,
    event: activity.event,
    worker_id: activity.workerId ?? null,
    job_id: activity.jobId ?? null,
    run_id: activity.runId ?? null,
    detail: activity.detail ?? null,
  };
}
