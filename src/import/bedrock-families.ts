import type { ExternalRow } from '../store/external/external-database.ts';
import type { JobState } from '../store/schema.ts';
import { invalidJob, textOf } from './foreign-queue.ts';

/** A job that is a parent or a child, in Bedrock's state. */
export interface Relative {
  readonly id: string;
  /** Null: it is no child. */
  readonly parent: string | null;
  readonly created: string;
  readonly state: string;
  /** Made for a test only. */
  readonly isMocked: boolean;
}

export interface Families {
  find(id: string): Relative | null;
  childrenOf(id: string): readonly Relative[];
}

const AT_WORK: readonly string[] = ['QUEUED', 'RUNNING', 'RUNQUEUED'];

export const isUnfinished = (state: string): boolean =>
  state === 'PAUSED' || AT_WORK.includes(state);

/** Few jobs have any, so that these fit into memory. */
export function readFamilies(rows: Iterable<ExternalRow>): Families {
  const relatives = Array.from(
    rows,
    ({ id, parent, created, state, isMocked }): Relative => ({
      id: textOf(id),
      parent: parent === null ? null : textOf(parent),
      created: textOf(created),
      state: textOf(state),
      isMocked: Number(isMocked) === 1,
    }),
  );
  const byId = new Map(relatives.map((relative) => [relative.id, relative]));
  const byParent = Map.groupBy(relatives, ({ parent }) => parent);
  return {
    find: (id) => byId.get(id) ?? null,
    childrenOf: (id) => byParent.get(id) ?? [],
  };
}

/** Whether an ended job belongs to one that has not: as its child, whose end it is to learn, or its parent. */
export function isOfUnfinishedFamily(families: Families, id: string): boolean {
  const { parent = null } = families.find(id) ?? {};
  const family = parent === null ? families.childrenOf(id) : [families.find(parent)];
  return family.some((relative) => relative !== null && isUnfinished(relative.state));
}

/** What becomes of a paused job. */
export interface PausedState {
  readonly state: JobState;
  readonly notes: readonly string[];
}

/**
 * Whom a paused job waits for: a child for its parent's end, a parent for that of its children.
 *
 * @param bad numbers of jobs that cannot be taken over
 * @throws {QueueError} if it would wait for ever
 */
export function decidePaused(
  families: Families,
  id: string,
  bad: ReadonlySet<string>,
): PausedState {
  const { parent = null } = families.find(id) ?? {};
  if (parent !== null) return decidePausedChild(parent, families.find(parent)?.state ?? 'missing');
  const isWaiting = families
    .childrenOf(id)
    .some((child) => isUnfinished(child.state) && !child.isMocked && !bad.has(child.id));
  if (isWaiting) return { state: 'paused', notes: [] };
  return { state: 'queued', notes: ['PAUSED, but no child is left to wait for: queued'] };
}

function decidePausedChild(parent: string, state: string): PausedState {
  if (AT_WORK.includes(state)) return { state: 'paused', notes: [] };
  if (state === 'PAUSED') {
    return { state: 'queued', notes: ['PAUSED beside a parent that is PAUSED as well: queued'] };
  }
  throw invalidJob(
    `it is PAUSED until its parent ${parent} finishes, which is ${state}: nothing would ever queue it`,
  );
}
