import formatBytes from 'bytes';
import type { JobRow } from '../../store/schema.ts';
import type { JobHead, SizedJobRow } from '../../store/shared/job-columns.ts';
import type { StoreSession } from '../../store/store.ts';
import type { JobState } from '../../store/words.ts';
import { isEnded, isWaiting } from '../../store/words.ts';
import { allEnded } from '../../system/base/values.ts';
import type { EndedChildren } from '../api.ts';
import { QueueError, refuse } from '../errors.ts';
import { type JsonReader, readStoredJson } from '../read/jobs.ts';
import { cancelWaiting, changeByEvent } from './change-by-event.ts';

/**
 * The state in which a new child begins: the child of a running parent waits until the parent has finished. The caller
 * locks the parent.
 *
 * @throws {QueueError} if the job can have no children, or none now
 */
export async function stateOfNewChild(session: StoreSession, parentId: number): Promise<JobState> {
  const [parent] = await session.jobs.byId([parentId]);
  if (parent === undefined)
    throw new QueueError(
      'no-such-job',
      `There is no parent job ${parentId}; \`npx folder-runner jobs\` lists all jobs.`,
    );
  if (parent.parent_id !== null) {
    const why = `Job ${parentId} is a child itself; a child cannot have children.`;
    throw new QueueError('wrong-state', why);
  }
  if (parent.state === 'claimed') await markParent(session, parent);
  // A claimed job begins in a moment, or has begun: only its own handler can know its number to add a child.
  if (parent.state === 'running' || parent.state === 'claimed') return 'paused';
  if (parent.state === 'paused') return 'queued';
  throw new QueueError(
    'wrong-state',
    `Job ${parentId} is ${parent.state}; children can be added while their parent runs or waits for other children.`,
  );
}

/**
 * A server finishes claimed jobs by one statement, which may have begun before they had children. This mark shows the
 * statement that there are some. `resume` is the default anyway.
 */
async function markParent(session: StoreSession, { id, on_child_failure, run_at }: JobHead): Promise<void> {
  if (on_child_failure !== null) return;
  await session.jobs.change([{ id, set: { on_child_failure: 'resume' } }], run_at);
}

/** The state in which a retried child goes on: a child is claimed only while its parent waits. */
export async function stateOfRetriedChild(
  session: StoreSession,
  parentId: number,
): Promise<Extract<JobState, 'retrying' | 'paused' | 'cancelled'>> {
  const [parent] = await session.jobs.byId([parentId]);
  if (parent === undefined || parent.finished_at !== null) return 'cancelled';
  return parent.state === 'paused' ? 'retrying' : 'paused';
}

/**
 * Whether a claimed child may run: only while its parent waits for it. Plain SQL can make any job its parent, at any
 * time.
 *
 * @param parent in its present state, not locked: a caller that ends the parent finds the child claimed, or has ended
 * it, too
 */
export function judgeChild({ id, parent_id }: JobHead, parent: JobHead | undefined): ChildsTurn {
  if (parent_id === null) return { kind: 'run' };
  if (parent_id === id) return { kind: 'fail', reason: 'it is its own parent' };
  if (parent === undefined) return { kind: 'fail', reason: `its parent, job ${parent_id}, does not exist` };
  if (parent.parent_id !== null) {
    const reason = `its parent, job ${parent_id}, is a child itself; a child cannot have children`;
    return { kind: 'fail', reason };
  }
  if (parent.finished_at !== null) return { kind: 'cancel', reason: `its parent, job ${parent_id}, has ended` };
  return { kind: parent.state === 'paused' ? 'run' : 'wait' };
}

type ChildsTurn = { readonly kind: 'run' | 'wait' } | { readonly kind: 'fail' | 'cancel'; readonly reason: string };

/**
 * The state in which a job begins anew: queued, except for a child whose parent does not wait for it now, and for a
 * parent that must wait for a child that still runs.
 *
 * @throws {QueueError} if its parent has ended, or another job has its unique key by now
 */
export async function stateOfRevived(session: StoreSession, job: JobHead): Promise<'queued' | 'paused'> {
  const { id, parent_id: parentId } = job;
  if (isEnded(job.state)) await refuseTakenKey(session, job);
  if (parentId === null) {
    // After a parent's end, only children that were running then can still be open.
    return isEnded(job.state) && (await session.jobs.hasOpenChildren(id)) ? 'paused' : 'queued';
  }
  const [parent] = await session.jobs.byId([parentId]);
  const state = parent?.state ?? 'finished';
  if (!isEnded(state)) return state === 'paused' ? 'queued' : 'paused';
  const why = `belongs to job ${parentId}, which is ${state} and no longer waits for children; add a new job instead.`;
  throw refuse(job, why);
}

/** @throws {QueueError} */
async function refuseTakenKey(session: StoreSession, job: JobHead): Promise<void> {
  if (job.unique_key === null) return;
  const [other] = await session.jobs.byUniqueKeys([job.unique_key]);
  if (other === undefined) return;
  const why = `job ${other.id} has its unique key ${JSON.stringify(job.unique_key)}`;
  throw refuse(job, `cannot be queued again: ${why}; wait for that one's end, or cancel it.`);
}

/** Queues the children of a parent that has paused. */
export async function releaseChildren(session: StoreSession, parentId: number, at: number): Promise<void> {
  const paused = (await session.jobs.children(parentId)).filter(({ state }) => state === 'paused');
  const queued = paused.map(({ id, run_at }) => ({
    id,
    set: { state: 'queued' as const, run_at: Math.max(run_at, at) },
  }));
  await changeByEvent(session, queued, { at, event: 'job-queued' });
}

/** Cancels the waiting children of a parent that has failed or was cancelled. */
export async function cancelChildren(session: StoreSession, parentId: number, at: number): Promise<void> {
  const reason = `its parent, job ${parentId}, has ended without having finished`;
  const waiting = (await session.jobs.children(parentId)).filter(({ state }) => isWaiting(state) || state === 'paused');
  await cancelWaiting(session, waiting, { at, reason });
}

/**
 * Call it once a child has ended. After the last child its waiting parent is queued again, or fails if its policy says
 * so. The parent is locked before the look at its children: if the last two children end at the same time, one of them
 * finds the other ended.
 */
export async function resumeParentIfDone(session: StoreSession, parentId: number | null, at: number): Promise<void> {
  if (parentId === null) return;
  const [, [parent]] = await allEnded([session.jobs.lock([parentId]), session.jobs.byId([parentId])]);
  // A running parent learns of its children at its end; an ended one no longer needs to.
  if (parent?.state !== 'paused' || (await session.jobs.hasOpenChildren(parentId))) return;
  const ended = parent.on_child_failure === 'fail' ? await unreportedChildren(session, parentId) : [];
  const failed = ended.find(({ state }) => state === 'failed');
  if (failed === undefined) {
    const set = { state: 'queued', run_at: at, attempts: 0, reason: null } as const;
    const detail = 'its children have ended';
    return await changeByEvent(session, [{ id: parentId, set }], { at, event: 'job-queued', detail });
  }
  const reason = `its child, job ${failed.id} (${failed.name}), has failed`;
  const set = { state: 'failed', finished_at: at, reason } as const;
  await changeByEvent(session, [{ id: parentId, set }], { at, event: 'job-failed', detail: reason });
}

/** Ended children that their parent has not received yet. */
async function unreportedChildren(session: StoreSession, parentId: number): Promise<SizedJobRow[]> {
  return (await session.jobs.children(parentId)).filter(
    ({ finished_at, reported_to_parent }) => finished_at !== null && reported_to_parent === 0,
  );
}

/** Ended children with their values, by their states. */
async function groupEnded<Child>(
  session: StoreSession,
  children: readonly JobHead[],
  form: (child: JobRow) => Child,
): Promise<Readonly<Record<'finished' | 'failed' | 'cancelled', Child[]>>> {
  const ended = await session.jobs.wholeById(children.map(({ id }) => id));
  const inState = (state: JobState) => ended.filter((child) => child.state === state).map(form);
  return { finished: inState('finished'), failed: inState('failed'), cancelled: inState('cancelled') };
}

/** Like `unreportedChildren`, as a caller of the API gets them. */
export async function readEndedChildren(
  session: StoreSession,
  parentId: number,
  read?: JsonReader,
): Promise<EndedChildren> {
  return await groupEnded(session, await unreportedChildren(session, parentId), ({ id, name, data, result }) => ({
    ...{ id, name, data: readStoredJson(data, read), result: readStoredJson(result, read) },
  }));
}

/** The values are held several times at once, here and in the handler's process. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Bytes of a child's JSON besides its name, its data and its result. */
const FRAME_BYTES = 64;

/** The ended children for their parent's handler, as JSON; or why they cannot be passed on. */
export async function describeChildren(
  session: StoreSession,
  parentId: number,
): Promise<{ readonly json: string } | { readonly problem: string }> {
  const ended = await unreportedChildren(session, parentId);
  const bytes = ended.reduce((sum, child) => sum + sizeOf(child), 0);
  if (bytes > MOST_BYTES) {
    const problem = `the data and results of its children are ${size(bytes)} in total, and its handler can get ${size(MOST_BYTES)}; put large data into files and pass their names`;
    return { problem };
  }
  const texts = Object.entries(await groupEnded(session, ended, toText));
  return { json: `{${texts.map(([state, children]) => `"${state}":[${children.join()}]`).join()}}` };
}

function sizeOf({ name, data_bytes, result_bytes }: SizedJobRow): number {
  return FRAME_BYTES + Buffer.byteLength(name) + data_bytes + (result_bytes ?? 0);
}

/** The values of children stay text, which is only passed on. */
function toText({ id, name, data, result }: JobRow): string {
  return `{"id":${id},"name":${JSON.stringify(name)},"data":${toJson(data)},"result":${toJson(result)}}`;
}

/** Plain SQL may have written a value that is not JSON. */
function toJson(text: string | null): string | null {
  return readStoredJson(text) === null ? null : text;
}

function size(bytes: number): string {
  return formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;
}
