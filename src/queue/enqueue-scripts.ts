import type { Script } from '../discovery/script.ts';
import { recordActivity } from '../store/activity.ts';
import type { Database } from '../store/open-store.ts';
import { toPolicyColumns } from './retry-policy.ts';

/** A job that is ready to be claimed. */
export interface QueuedJob {
  readonly id: number;
  readonly script: Script;
  readonly scheduledFor: number | null;
}

export interface Enqueueing {
  readonly workerId: number;
  readonly scheduledFor: number | null;
  readonly at: number;
}

/**
 * One job for each script of a pass, all in one transaction, in the order given. No script may have
 * an open job: a script is never twice under way.
 */
export function enqueueScripts(
  db: Database,
  scripts: readonly Script[],
  { workerId, scheduledFor, at }: Enqueueing,
): Promise<QueuedJob[]> {
  if (scripts.length === 0) return Promise.resolve([]);
  return db.transaction().execute(async (transaction) => {
    const rows = await transaction
      .insertInto('jobs')
      .values(scripts.map((script) => toRow(script, scheduledFor, at)))
      .returning('id')
      .execute();
    // SQLite hands out ids in the order of the values, but promises no order of RETURNING's rows.
    const ids = rows.map((row) => row.id).sort((one, other) => one - other);
    await recordActivity(
      transaction,
      ids.map((jobId) => ({ at, event: 'job-queued' as const, workerId, jobId })),
    );
    return scripts.map((script, index) => ({ id: ids[index] as number, script, scheduledFor }));
  });
}

function toRow(script: Script, scheduledFor: number | null, at: number) {
  return {
    name: script.name,
    tier: script.tier,
    state: 'queued' as const,
    scheduled_for: scheduledFor,
    run_at: at,
    created_at: at,
    ...toPolicyColumns(script),
  };
}
