import type { Database } from '../../store/database.ts';
import { queryRaw } from '../../store/raw-query.ts';
import type { JobState } from '../../store/schema.ts';

/** What has become of a job that was taken over before; null: its row is gone. */
export type KnownJob = { readonly id: number; readonly state: JobState } | null;

/** By their keys. */
export type KnownJobs = ReadonlyMap<string, KnownJob>;

interface Row {
  readonly key: string;
  readonly id: number | null;
  readonly state: JobState | null;
}

/**
 * Every job that was taken over, of whatever file: by its unique key, for as long as its row is there,
 * and by the activity, in which it stays when the row is removed.
 */
export async function readKnownJobs(db: Database): Promise<KnownJobs> {
  const rows = await queryRaw<Row>(
    db,
    `select detail as key, jobs.id as id, jobs.state as state
       from activity left join jobs on jobs.id = activity.job_id
       where event = 'job-imported' and detail is not null
     union all select unique_key, id, state from jobs
       where tier is null and unique_key glob 'import:*'`,
  );
  return new Map(rows.map(({ key, id, state }) => [key, toKnown(id, state)]));
}

function toKnown(id: number | null, state: JobState | null): KnownJob {
  return id === null || state === null ? null : { id, state };
}
