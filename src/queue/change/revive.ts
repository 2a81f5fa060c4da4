import { type RawBuilder, sql } from 'kysely';
import { recordActivity } from '../../store/events.ts';
import type { JobRow, JobState } from '../../store/schema.ts';
import { inPages } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import { invalid, requireJobName } from '../add/values.ts';
import type { RequeueOptions } from '../api.ts';
import { refuse, wrongState } from '../errors.ts';
import { fitsPatterns, type Patterns, readPatterns } from '../patterns.ts';
import { findJob, readJobId, selectRow } from '../read/jobs.ts';
import { isEnded, isFailedJob, isWaiting, isWaitingJob } from '../read/states.ts';
import { hasPendingChildren } from '../settle/families.ts';

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

/** Queues a job that has failed, or is not due yet, at once, with all its tries. */
export async function kickJob(db: Database, id: number, at: number): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, id);
    const isDelayed = isWaiting(job.state) && job.run_at > at;
    if (job.state !== 'failed' && !isDelayed) throw wrongState(job, 'kick');
    const state = await judgeRevival(transaction, job);
    await transaction
      .updateTable('jobs')
      .set({ state, ...asKicked(at) })
      .where('id', '=', job.id)
      .execute();
    await recordActivity(transaction, { at, event: 'job-kicked', jobId: job.id });
  });
}

/** How the row of a kicked job looks, its state aside. */
function asKicked(at: number) {
  return { ...asUnfinished, run_at: at, attempts: 0, kicks: sql<number>`kicks + 1` };
}

/**
 * Queues jobs anew from whatever state they are in, due since they were added; all or none. Numbers that
 * no job has are passed over. A claim that one of them is held by is over.
 *
 * @returns how many there were
 */
export async function requeueJobs(
  db: Database,
  ids: readonly number[],
  options: RequeueOptions,
  at: number,
): Promise<number> {
  if (!Array.isArray(ids)) throw invalid('What is requeued', 'a list of numbers of jobs', ids);
  const unique = [...new Set(ids.map(readJobId))];
  const renamed = options.name === undefined ? {} : { name: requireJobName(options.name) };
  return await db.transaction().execute(async (transaction) => {
    let count = 0;
    for (const id of unique) {
      const job = await selectRow(transaction, id);
      if (job === null) continue;
      await requeue(transaction, job, { renamed, forgetTry: options.forgetTry === true, at });
      count += 1;
    }
    return count;
  });
}

interface Requeueing {
  readonly renamed: { readonly name?: string };
  readonly forgetTry: boolean;
  readonly at: number;
}

async function requeue(db: Database, job: JobRow, requeueing: Requeueing): Promise<void> {
  const { renamed, forgetTry, at } = requeueing;
  const isParent = job.state === 'paused' && (await hasPendingChildren(db, job.id));
  if (isParent) throw wrongState(job, 'requeue');
  const state = await judgeRevival(db, job);
  await db
    .updateTable('jobs')
    .set({
      ...asUnfinished,
      ...renamed,
      state,
      run_at: job.created_at,
      attempts: Math.max(job.attempts - (forgetTry ? 1 : 0), 0),
      claimed_by: null,
      claim_token: null,
      leased_until: null,
    })
    .where('id', '=', job.id)
    .execute();
  if (job.state === 'running') await endOpenRun(db, job, requeueing);
  await recordActivity(db, { at, event: 'job-requeued', jobId: job.id });
}

/** What its worker may tell of it later is refused. */
async function endOpenRun(
  db: Database,
  { id }: JobRow,
  { forgetTry, at }: Requeueing,
): Promise<void> {
  const ended = forgetTry
    ? { outcome: 'released' as const, reason: 'its job was requeued: it never reached a worker' }
    : { outcome: 'crashed' as const, reason: 'its job was requeued while it ran' };
  await db
    .updateTable('runs')
    .set({ ...ended, finished_at: at })
    .where('job_id', '=', id)
    .where('outcome', '=', 'running')
    .execute();
}

/** How a job's row looks that begins anew. */
const asUnfinished = {
  finished_at: null,
  result: null,
  reason: null,
  is_told: 0,
} as const satisfies Partial<JobRow>;

/**
 * In which state a job begins anew: queued, unless it is a child whose parent does not wait for it now, or
 * a parent with a child that still runs, which it waits for.
 *
 * @throws {QueueError} if its parent has ended, or another job has its unique key by now
 */
async function judgeRevival(
  db: Database,
  job: JobRow,
): Promise<Extract<JobState, 'queued' | 'paused'>> {
  if (isEnded(job.state)) await refuseTakenKey(db, job);
  if (job.parent_id === null) return await judgeParent(db, job);
  const parent = await db
    .selectFrom('jobs')
    .select('state')
    .where('id', '=', job.parent_id)
    .executeTakeFirst();
  const state = parent?.state ?? 'finished';
  if (state === 'paused') return 'queued';
  if (!isEnded(state)) return 'paused';
  throw refuse(
    job,
    `belongs to job ${job.parent_id}, which is ${state} and no longer waits for children; ` +
      'add a new job instead.',
  );
}

/** Of one that has ended, only those children have not that ran then. */
async function judgeParent(db: Database, { id, state }: JobRow): Promise<'queued' | 'paused'> {
  return isEnded(state) && (await hasPendingChildren(db, id)) ? 'paused' : 'queued';
}

async function refuseTakenKey(db: Database, job: JobRow): Promise<void> {
  if (job.unique_key === null) return;
  const other = await db
    .selectFrom('jobs')
    .select('id')
    .where('unique_key', '=', job.unique_key)
    .where('finished_at', 'is', null)
    .executeTakeFirst();
  if (other === undefined) return;
  throw refuse(
    job,
    `cannot be queued again: job ${other.id} has its unique key ` +
      `${JSON.stringify(job.unique_key)}; wait for that one's end, or cancel it.`,
  );
}
