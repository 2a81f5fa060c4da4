import { type ForeignDatabase, quoteName } from '../../store/foreign-database.ts';
import type { JobState } from '../../store/schema.ts';
import { textOf } from './read-values.ts';

/** A job that is a parent or a child, in Bedrock's state. */
export interface Relative {
  readonly id: string;
  /** Null: it is no child. */
  readonly parent: string | null;
  readonly state: string;
}

export interface Families {
  find(id: string): Relative | null;
  childrenOf(id: string): readonly Relative[];
}

/** What becomes of a paused job. */
export type PausedVerdict =
  | { readonly state: JobState; readonly note?: string }
  | { readonly problem: string };

const UNFINISHED: readonly string[] = ['QUEUED', 'RUNNING', 'RUNQUEUED', 'PAUSED'];
const AT_WORK: readonly string[] = ['QUEUED', 'RUNNING', 'RUNQUEUED'];

export const isUnfinished = (state: string): boolean => UNFINISHED.includes(state);

/** Few jobs have any, so that these fit into memory. */
export function readFamilies(database: ForeignDatabase, table: string): Families {
  const name = quoteName(table);
  const isChild = "coalesce(parentJobID, 0) not in (0, '', '0')";
  const rows = database.select(
    `select cast(jobID as text) as id, cast(parentJobID as text) as parent, ${isChild} as isChild,
       cast(state as text) as state from ${name}
     where ${isChild} or jobID in (select parentJobID from ${name} where ${isChild})
     order by created, jobID`,
  );
  const relatives = [...rows].map(
    (row): Relative => ({
      id: textOf(row.id),
      parent: Number(row.isChild) === 1 ? textOf(row.parent) : null,
      state: textOf(row.state),
    }),
  );
  return toFamilies(relatives);
}

export const noFamilies: Families = { find: () => null, childrenOf: () => [] };

function toFamilies(relatives: readonly Relative[]): Families {
  const byId = new Map(relatives.map((relative) => [relative.id, relative]));
  const byParent = new Map<string, Relative[]>();
  for (const relative of relatives) {
    if (relative.parent === null) continue;
    const siblings = byParent.get(relative.parent);
    if (siblings === undefined) byParent.set(relative.parent, [relative]);
    else siblings.push(relative);
  }
  return {
    find: (id) => byId.get(id) ?? null,
    childrenOf: (id) => byParent.get(id) ?? [],
  };
}

/** Whether an ended job belongs to one that has not: as its child, of which it is told, or its parent. */
export function isOfUnfinishedFamily(families: Families, id: string): boolean {
  const { parent = null } = families.find(id) ?? {};
  const family = parent === null ? families.childrenOf(id) : [families.find(parent)];
  return family.some((relative) => relative !== null && isUnfinished(relative.state));
}

/**
 * Whom a paused job waits for: a child for its parent's end, a parent for that of its children.
 *
 * @param isLeftOut whether a job of the file is not taken over
 */
export function judgePaused(
  families: Families,
  id: string,
  isLeftOut: (id: string) => boolean,
): PausedVerdict {
  const { parent = null } = families.find(id) ?? {};
  if (parent !== null) return judgePausedChild(parent, families.find(parent)?.state ?? 'missing');
  const pending = families
    .childrenOf(id)
    .filter((child) => isUnfinished(child.state) && !isLeftOut(child.id));
  if (pending.length > 0) return { state: 'paused' };
  return { state: 'queued', note: 'PAUSED, though no child is left to wait for: queued' };
}

function judgePausedChild(parent: string, state: string): PausedVerdict {
  if (AT_WORK.includes(state)) return { state: 'paused' };
  if (state === 'PAUSED') {
    return { state: 'queued', note: 'PAUSED beside a parent that is PAUSED as well: queued' };
  }
  return {
    problem: `it is PAUSED until its parent ${parent} finishes, which is ${state}: nothing would ever queue it`,
  };
}
