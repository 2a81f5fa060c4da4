import type { Database } from '../store/open-store.ts';
import { queryRaw } from '../store/raw-query.ts';
import type { FinishedRun, JobRow, Outcome } from '../store/schema.ts';
import { type Ending, type EndingFacts, endJob } from './end-job.ts';
import { noSuchJob } from './refusals.ts';

/** @throws {QueueError} if there is none of this number in the queue */
export async function selectJob(db: Database, id: number): Promise<JobRow> {
  const [job] = await queryRaw<JobRow>(db, 'select * from jobs where id = ? and tier is null', [
    id,
  ]);
  if (job === undefined) throw noSuchJob(id);
  return job;
}

/** Ends a claim of somebody who is no worker of the runner: with it, its run. To be called in a transaction. */
export async function endClaim(
  db: Database,
  job: JobRow,
  ending: Ending,
  facts: EndingFacts,
): Promise<void> {
  const runId = await endOpenRun(db, job, ending, facts);
  await endJob(db, job, ending, { ...facts, ...(runId !== null && { runId }) });
}

/** Nothing of it was measured; what its worker may tell later is refused. */
async function endOpenRun(
  db: Database,
  { id, started_at }: JobRow,
  ending: Ending,
  { at, reason, counts }: EndingFacts,
): Promise<number | null> {
  const outcome = counts !== undefined ? 'crashed' : outcomeOf(ending);
  const run: Partial<FinishedRun> = {
    outcome,
    finished_at: at,
    duration_ms: outcome === 'crashed' ? null : durationOf(started_at, at),
    reason: outcome === 'succeeded' ? null : (reason ?? 'it was given back'),
  };
  const ended = await db
    .updateTable('runs')
    .set(run)
    .where('job_id', '=', id)
    .where('outcome', '=', 'running')
    .returning('id')
    .executeTakeFirst();
  return ended?.id ?? null;
}

function outcomeOf(ending: Ending): Outcome {
  if (ending.kind === 'finish') return 'succeeded';
  return ending.kind === 'retry' && !ending.isTry ? 'released' : 'failed';
}

/** Null: unknown, as when the clock was set back meanwhile. */
function durationOf(startedAt: number | null, endedAt: number): number | null {
  return startedAt === null || endedAt < startedAt ? null : endedAt - startedAt;
}
