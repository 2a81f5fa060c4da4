import formatBytes from 'bytes';
import { sql } from 'kysely';
import { recordActivity } from '../../store/events.ts';
import type { JobState } from '../../store/schema.ts';
import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { ChildJob, EndedChildren } from '../api.ts';
import { QueueError } from '../errors.ts';
import { type JsonReader, readStoredJson } from '../read/jobs.ts';

/** What has not ended. */
export const unfinishedStates = ['queued', 'running', 'retrying', 'paused'] as const;

/**
 * In which state a new child begins: a running parent's waits until that has finished.
 *
 * @throws {QueueError} if this job can have no children, or none now
 */
export async function stateOfNewChild(db: Database, parentId: number): Promise<JobState> {
  const parent = await db
    .selectFrom('jobs')
    .select(['state', 'parent_id'])
    .where('id', '=', parentId)
    .where('tier', 'is', null)
    .executeTakeFirst();
  if (parent === undefined)
    throw new QueueError('no-such-job', `There is no parent job ${parentId}.`);
  if (parent.parent_id !== null) {
    const why = `Job ${parentId} is a child itself; a child cannot have children.`;
    throw new QueueError('wrong-state', why);
  }
  if (parent.state === 'running') return 'paused';
  if (parent.state === 'paused') return 'queued';
  throw new QueueError(
    'wrong-state',
    `Job ${parentId} is ${parent.state}; children can be added while their parent runs or waits for other children.`,
  );
}

/** In which state a child goes on that is to be tried again: it is only taken while its parent waits. */
export async function stateOfRetriedChild(
  db: Database,
  parentId: number,
): Promise<Extract<JobState, 'retrying' | 'paused' | 'cancelled'>> {
  const parent = await db
    .selectFrom('jobs')
    .select(['state', 'finished_at'])
    .where('id', '=', parentId)
    .executeTakeFirst();
  if (parent === undefined || parent.finished_at !== null) return 'cancelled';
  return parent.state === 'paused' ? 'retrying' : 'paused';
}

/** Whether a job has children that have not ended. */
export async function hasPendingChildren(db: Database, parentId: number): Promise<boolean> {
  const child = await db
    .selectFrom('jobs')
    .select('id')
    .where('parent_id', '=', parentId)
    .where('state', 'in', unfinishedStates)
    .executeTakeFirst();
  return child !== undefined;
}

/** Lets the children of a parent that has paused be taken. */
export async function releaseChildren(db: Database, parentId: number, at: number): Promise<void> {
  const released = await db
    .updateTable('jobs')
    .set({ state: 'queued', run_at: sql<number>`max(run_at, ${at})` })
    .where('parent_id', '=', parentId)
    .where('state', '=', 'paused')
    .returning('id')
    .execute();
  await record(db, released, 'job-queued', at);
}

/** Ends what waits of the children of a parent that has failed or was cancelled. */
export async function cancelChildren(db: Database, parentId: number, at: number): Promise<void> {
  const reason = `its parent, job ${parentId}, has ended without having finished`;
  const cancelled = await db
    .updateTable('jobs')
    .set({ state: 'cancelled', finished_at: at, reason })
    .where('parent_id', '=', parentId)
    .where('state', 'in', ['queued', 'retrying', 'paused'])
    .returning('id')
    .execute();
  await record(db, cancelled, 'job-cancelled', at, reason);
}

/**
 * To be called once a child has ended: when it was the last one, its waiting parent is queued again,
 * or fails if it wants to.
 */
export async function tellParent(db: Database, parentId: number | null, at: number): Promise<void> {
  if (parentId === null || (await hasPendingChildren(db, parentId))) return;
  const parent = await db
    .selectFrom('jobs')
    .select(['id', 'on_child_failure'])
    .where('id', '=', parentId)
    // One that runs meanwhile is told at its end; one that has ended wants to know no more.
    .where('state', '=', 'paused')
    .executeTakeFirst();
  if (parent === undefined) return;
  const failed = parent.on_child_failure === 'fail' ? await findFailedChild(db, parentId) : null;
  if (failed === null) await resumeParent(db, parentId, at);
  else await failParent(db, parentId, failed, at);
}

async function resumeParent(db: Database, id: number, at: number): Promise<void> {
  const resumed = { state: 'queued' as const, run_at: at, attempts: 0, reason: null };
  await db.updateTable('jobs').set(resumed).where('id', '=', id).execute();
  await recordActivity(db, {
    at,
    event: 'job-queued',
    jobId: id,
    detail: 'its children have ended',
  });
}

async function failParent(db: Database, id: number, child: string, at: number): Promise<void> {
  const reason = `${child} has failed`;
  const failed = { state: 'failed' as const, finished_at: at, reason };
  await db.updateTable('jobs').set(failed).where('id', '=', id).execute();
  await recordActivity(db, { at, event: 'job-failed', jobId: id, detail: reason });
}

async function findFailedChild(db: Database, parentId: number): Promise<string | null> {
  const child = await endedChildrenOf(db, parentId)
    .where('state', '=', 'failed')
    .executeTakeFirst();
  return child === undefined ? null : `its child, job ${child.id} (${child.name}),`;
}

/** The children that a parent has not been told of yet. */
export async function readEndedChildren(
  db: Database,
  parentId: number,
  read?: JsonReader,
): Promise<EndedChildren> {
  const ended = await endedChildrenOf(db, parentId).execute();
  const inState = (state: JobState) =>
    ended.filter((child) => child.state === state).map((child) => toChild(child, read));
  return {
    finished: inState('finished'),
    failed: inState('failed'),
    cancelled: inState('cancelled'),
  };
}

/** Once a parent has finished, what it was told of is no news any more. */
export async function markChildrenTold(db: Database, parentId: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ is_told: 1 })
    .where('parent_id', '=', parentId)
    .where('finished_at', 'is not', null)
    .where('is_told', '=', 0)
    .execute();
}

/** Those that a parent has not been told of yet. */
function endedChildrenOf(db: Database, parentId: number) {
  return db
    .selectFrom('jobs')
    .select(['id', 'name', 'state', 'data', 'result'])
    .where('parent_id', '=', parentId)
    .where('state', 'in', ['finished', 'failed', 'cancelled'])
    .where('is_told', '=', 0)
    .orderBy('id');
}

interface ChildRow {
  readonly id: number;
  readonly name: string;
  readonly data: string;
  readonly result: string | null;
}

function toChild({ id, name, data, result }: ChildRow, read?: JsonReader): ChildJob {
  return { id, name, data: readStoredJson(data, read), result: readStoredJson(result, read) };
}

async function record(
  db: Database,
  jobs: readonly { readonly id: number }[],
  event: 'job-queued' | 'job-cancelled',
  at: number,
  detail: string | null = null,
): Promise<void> {
  await recordActivity(
    db,
    jobs.map(({ id }) => ({ at, event, jobId: id, detail })),
  );
}

/** It is held several times at once, here and in the handler's process. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Of a child besides its name, its data and its result. */
const FRAME_BYTES = 64;

/**
 * What a handler is told of its children that have ended, as JSON: theirs is text that is only passed
 * through.
 */
export async function tellEndedChildren(db: Database, parentId: number): Promise<string> {
  const ended = await endedChildrenOf(db, parentId).execute();
  const inState = (state: JobState): string =>
    ended
      .filter((child) => child.state === state)
      .map(toText)
      .join();
  return `{"finished":[${inState('finished')}],"failed":[${inState('failed')}],"cancelled":[${inState('cancelled')}]}`;
}

/** Why a handler cannot be told of them: it is too much; null: it can. */
export async function describeUntellable(db: Database, parentId: number): Promise<string | null> {
  const [row] = await queryRaw<{ bytes: number | null }>(
    db,
    `select sum(octet_length(name) + octet_length(data) + coalesce(octet_length(result), 0) + ?) as bytes
     from jobs
     where parent_id = ? and state in ('finished', 'failed', 'cancelled') and is_told = 0`,
    [FRAME_BYTES, parentId],
  );
  const bytes = row?.bytes ?? 0;
  if (bytes <= MOST_BYTES) return null;
  return `the data and results of its children are ${size(bytes)} in total, and its handler can get ${size(MOST_BYTES)}; put large data into files and pass their names`;
}

function toText({ id, name, data, result }: ChildRow): string {
  return `{"id":${id},"name":${JSON.stringify(name)},"data":${toJson(data)},"result":${toJson(result)}}`;
}

/** Plain SQL may have written what is no JSON. */
function toJson(text: string | null): string | null {
  return readStoredJson(text) === null ? null : text;
}

function size(bytes: number): string {
  return formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;
}
