import { type RawBuilder, sql } from 'kysely';
import { recordActivity } from '../store/activity.ts';
import { inPages } from '../store/in-pages.ts';
import type { Database } from '../store/open-store.ts';
import type { JobState } from '../store/schema.ts';
import { isFailedJob, isWaitingJob } from './job-states.ts';
import { invalid } from './job-values.ts';
import { asKicked } from './kick-job.ts';
import { fitsPatterns, type Patterns, readPatterns } from './name-patterns.ts';

/**
 * Kicks jobs of these names: those that have failed, the longest ago first; only if there are none, those
 * that are not due yet, the next ones first. What cannot be queued again counts as if it were not there: a
 * child whose parent has ended, a job whose unique key another one has by now.
 *
 * @returns how many
 */
export async function kickJobs(
  db: Database,
  patterns: Patterns,
  count: number,
  at: number,
): Promise<number> {
  const fits = fitsPatterns(readPatterns(patterns));
  if (!Number.isSafeInteger(count) || count < 1) {
    throw invalid('How many are kicked', 'a whole number above 0', count);
  }
  return await db.transaction().execute(async (transaction) => {
    const failed = await selectFailed(transaction, sql<boolean>`${isFailedJob} and ${fits}`, count);
    const isWaiting = sql<boolean>`${isWaitingJob} and ${fits}`;
    const ids = failed.length > 0 ? failed : await selectDelayed(transaction, isWaiting, count, at);
    await kickAll(transaction, ids, at);
    return ids.length;
  });
}

/** Of those that share a unique key the one that failed first is kicked; it is looked on behind it. */
async function selectFailed(
  db: Database,
  condition: RawBuilder<boolean>,
  count: number,
): Promise<number[]> {
  const ids: number[] = [];
  const keys = new Set<string>();
  let last = { finished_at: 0, id: 0 };
  for (;;) {
    const limit = count - ids.length;
    const page = await selectFailedAfter(db, condition, last, limit);
    for (const { id, unique_key } of page) {
      if (unique_key === null || !keys.has(unique_key)) ids.push(id);
      if (unique_key !== null) keys.add(unique_key);
    }
    if (page.length < limit || ids.length === count) return ids;
    last = page.at(-1) as { finished_at: number; id: number };
  }
}

const hasFreeKey = sql<boolean>`(jobs.unique_key is null or not exists (
  select 1 from jobs as other
  where other.unique_key = jobs.unique_key and other.finished_at is null))`;

const hasFreeParent = sql<boolean>`(jobs.parent_id is null or exists (
  select 1 from jobs as parent where parent.id = jobs.parent_id and parent.finished_at is null))`;

async function selectFailedAfter(
  db: Database,
  condition: RawBuilder<boolean>,
  last: { readonly finished_at: number; readonly id: number },
  limit: number,
) {
  return await db
    .selectFrom('jobs')
    .select(['id', 'unique_key', 'finished_at'])
    .where(condition)
    .where(sql<boolean>`(jobs.finished_at, jobs.id) > (${last.finished_at}, ${last.id})`)
    .where(hasFreeKey)
    .where(hasFreeParent)
    .$narrowType<{ finished_at: number }>()
    .orderBy('finished_at')
    .orderBy('id')
    .limit(limit)
    .execute();
}

async function selectDelayed(
  db: Database,
  condition: RawBuilder<boolean>,
  count: number,
  at: number,
): Promise<number[]> {
  const delayed = await db
    .selectFrom('jobs')
    .select('id')
    .where(condition)
    .where('run_at', '>', at)
    .orderBy('run_at')
    .orderBy('id')
    .limit(count)
    .execute();
  return delayed.map(({ id }) => id);
}

/** A child whose parent does not wait for it now goes on waiting for that. */
const stateOfKicked = sql<JobState>`case
  when parent_id is null then 'queued'
  when (select state from jobs as parent where parent.id = jobs.parent_id) = 'paused' then 'queued'
  else 'paused' end`;

async function kickAll(db: Database, ids: readonly number[], at: number): Promise<void> {
  for (const page of inPages(ids)) {
    await db
      .updateTable('jobs')
      .set({ state: stateOfKicked, ...asKicked(at) })
      .where('id', 'in', page)
      .execute();
    const event = 'job-kicked';
    await recordActivity(
      db,
      page.map((jobId) => ({ at, event, jobId }) as const),
    );
  }
}
