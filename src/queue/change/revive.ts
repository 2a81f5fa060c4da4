import type { StoreSession } from '../../store/contract.ts';
import type { JobRow, JobState } from '../../store/schema.ts';
import { invalid, requireJobName } from '../add/values.ts';
import type { RequeueOptions } from '../api.ts';
import { refuse, wrongState } from '../errors.ts';
import { type Patterns, readPatterns } from '../patterns.ts';
import { findJob, findRow, readJobId, type VerbSession } from '../read/jobs.ts';
import { isEnded, isWaiting } from '../read/list.ts';
import { endRun, findOpenRun, nothingKnown } from '../settle/by-caller.ts';

/**
 * Kicks jobs of these names: those that have failed, the longest ago first; only if there are none that can
 * be kicked, those that are not due yet, the next ones first. What cannot be queued again is passed over: a
 * child whose parent has ended, a job whose unique key another one has by now. To be called in a transaction.
 *
 * @returns how many
 */
export async function kickJobs(
  session: StoreSession,
  patterns: Patterns,
  count: number,
  at: number,
): Promise<number> {
  const globs = readPatterns(patterns);
  if (!Number.isSafeInteger(count) || count < 1) {
    throw invalid('How many are kicked', 'a whole number above 0', count);
  }
  const failed = await session.jobs.revivable(globs, count);
  const ids = failed.length > 0 ? failed : await session.jobs.delayed(globs, count, at);
  await session.jobs.lock(ids);
  for (const job of await session.jobs.byId(ids)) await kick(session, job, at);
  return ids.length;
}

/** Queues a job that has failed, or is not due yet, at once, with all its tries. To be called in a transaction. */
export async function kickJob(session: VerbSession, id: number, at: number): Promise<void> {
  const job = await findJob(session, id);
  const isDelayed = isWaiting(job.state) && job.run_at > at;
  if (job.state !== 'failed' && !isDelayed) throw wrongState(job, 'kick');
  await kick(session, job, at);
}

async function kick(session: StoreSession, job: JobRow, at: number): Promise<void> {
  const state = await stateOfRevived(session, job);
  const set = { ...asUnfinished, state, run_at: at, attempts: 0 };
  await session.jobs.change([{ id: job.id, set }], at);
  await session.events.record([{ at, event: 'job-kicked', jobId: job.id }]);
}

/**
 * Queues jobs anew from whatever state they are in, due since they were added; all or none. Numbers that
 * no job has are passed over. A claim that one of them is held by is over. To be called in a transaction.
 *
 * @returns how many there were
 */
export async function requeueJobs(
  session: VerbSession,
  ids: readonly number[],
  options: RequeueOptions,
  at: number,
): Promise<number> {
  if (!Array.isArray(ids)) throw invalid('What is requeued', 'a list of numbers of jobs', ids);
  const unique = [...new Set(ids.map(readJobId))].sort((one, other) => one - other);
  const renamed = options.name === undefined ? {} : { name: requireJobName(options.name) };
  let count = 0;
  for (const id of unique) {
    const job = await findRow(session, id);
    if (job === null) continue;
    await requeue(session, job, { renamed, forgetTry: options.forgetTry === true, at });
    count += 1;
  }
  return count;
}

interface Requeueing {
  readonly renamed: { readonly name?: string };
  readonly forgetTry: boolean;
  readonly at: number;
}

async function requeue(session: StoreSession, job: JobRow, requeueing: Requeueing): Promise<void> {
  const { renamed, forgetTry, at } = requeueing;
  const isParent = job.state === 'paused' && (await session.jobs.hasOpenChildren(job.id));
  if (isParent) throw wrongState(job, 'requeue');
  const state = await stateOfRevived(session, job);
  const set = {
    ...{ ...asUnfinished, ...renamed, state, run_at: job.created_at },
    attempts: Math.max(job.attempts - (forgetTry ? 1 : 0), 0),
    ...{ claim_token: null, lease_expires_at: null, lease_extended: 0 },
  };
  await session.jobs.change([{ id: job.id, set }], at);
  await endOpenRun(session, job, requeueing);
  await session.events.record([{ at, event: 'job-requeued', jobId: job.id }]);
}

/** What its worker may tell of it later is refused. */
async function endOpenRun(
  session: StoreSession,
  job: JobRow,
  { forgetTry, at: finished_at }: Requeueing,
): Promise<void> {
  const run = await findOpenRun(session, job, finished_at);
  if (run === null) return;
  const ended = forgetTry
    ? { outcome: 'released' as const, reason: 'its job was requeued: it never reached a worker' }
    : { outcome: 'crashed' as const, reason: 'its job was requeued while it ran' };
  await endRun(session, run, { ...nothingKnown, ...ended, finished_at }, 'queued');
}

/** How a job's row looks that begins anew. */
const asUnfinished = {
  finished_at: null,
  result: null,
  reason: null,
  reported_to_parent: 0,
} as const satisfies Partial<JobRow>;

/**
 * In which state a job begins anew: queued, unless it is a child whose parent does not wait for it now, or
 * a parent with a child that still runs, which it waits for.
 *
 * @throws {QueueError} if its parent has ended, or another job has its unique key by now
 */
async function stateOfRevived(
  session: StoreSession,
  job: JobRow,
): Promise<Extract<JobState, 'queued' | 'paused'>> {
  if (isEnded(job.state)) await refuseTakenKey(session, job);
  if (job.parent_id === null) return await stateOfParent(session, job);
  const [parent] = await session.jobs.byId([job.parent_id]);
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
async function stateOfParent(
  session: StoreSession,
  { id, state }: JobRow,
): Promise<'queued' | 'paused'> {
  return isEnded(state) && (await session.jobs.hasOpenChildren(id)) ? 'paused' : 'queued';
}

/** @throws {QueueError} */
async function refuseTakenKey(session: StoreSession, job: JobRow): Promise<void> {
  if (job.unique_key === null) return;
  const other = await session.jobs.byUniqueKey(job.unique_key);
  if (other === null) return;
  throw refuse(
    job,
    `cannot be queued again: job ${other.id} has its unique key ` +
      `${JSON.stringify(job.unique_key)}; wait for that one's end, or cancel it.`,
  );
}
