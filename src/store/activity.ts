import type { Database } from './database.ts';
import type { ActivityEvent } from './schema.ts';

export interface Activity {
  readonly at: number;
  readonly event: ActivityEvent;
  readonly workerId?: number | null;
  readonly jobId?: number | null;
  readonly runId?: number;
  readonly detail?: string | null;
}

/** Adds to the activity; to be called in the transaction of the change it tells of. */
export async function recordActivity(db: Database, ...activities: Activity[]): Promise<void> {
  await db.insertInto('activity').values(activities.map(toRow)).execute();
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
