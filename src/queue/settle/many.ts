import { type AlikeRow, jobListsOf, type NumberedList } from '../../store/statements/list-jobs.ts';
import type { StoreSession } from '../../store/store.ts';
import { lateAfter } from '../../system/base/clock.ts';
import { checkOptions, invalid } from '../add/values.ts';
import type { JobRef, ListOptions } from '../api.ts';
import { QueueError } from '../errors.ts';
import { MOST_SEARCHED, readFilter } from '../read/list.ts';
import { causeOf } from './incidents.ts';
import { type VerbName, verbOf, verbsFor } from './verbs.ts';

/** Which jobs a change of many takes; undefined: it is left out. */
export type JobSelection = {
  readonly [Option in 'pattern' | 'state' | 'due' | 'parent' | 'since' | 'until' | 'before' | 'after']?:
    | ListOptions[Option]
    | undefined;
} & {
  /** A text in data, result or reason. */
  readonly search?: string | undefined;
};

/** The effect that a verb would have on the selected jobs. */
export interface ChangePlan {
  /** How many jobs the verb takes. */
  readonly jobs: number;
  /** How many of the selected ones it would refuse. */
  readonly refused: number;
  /** The highest number among the selected jobs; null: there is none. */
  readonly last: number | null;
  /** Why the jobs are in their state, the most frequent cause first; only jobs that the verb takes. */
  readonly causes: readonly Cause[];
  /** A search stopped here; null: it has looked at all jobs. */
  readonly next: number | null;
}

/** Jobs that are in their state for the same reason. */
interface Cause {
  /** As one of them tells it; null: they have none. */
  readonly reason: string | null;
  readonly jobs: number;
}

/** Most causes that a question to the user lists. */
const MOST_CAUSES = 20;

/** A search for a change may take longer than one for a page, but others wait meanwhile. */
const LONGEST_SEARCH_MS = 500;

/** Jobs that one step of a change takes. */
const STEP = 1_000;

/** Counts the jobs that a verb would change, by the reasons for their state. */
export async function planChange(
  session: StoreSession,
  verb: VerbName,
  selection: JobSelection,
  at: number,
): Promise<ChangePlan> {
  const { ids, next } = await findSelected(session, selection, at, MOST_SEARCHED);
  const rows = await jobListsOf(session.statements).alike(ids ?? readFilter(selection, at), at);
  const taken = rows.filter((row) => isTaken(verb, row, at));
  const count = (some: readonly AlikeRow[]): number => some.reduce((sum, { jobs }) => sum + jobs, 0);
  const groups = [...Map.groupBy(taken, ({ reason }) => (reason === null ? null : causeOf(reason))).values()];
  const causes = groups.map((group) => ({ reason: group[0]?.reason ?? null, jobs: count(group) }));
  return {
    jobs: count(taken),
    refused: count(rows) - count(taken),
    last: rows.length === 0 ? null : Math.max(...rows.map(({ last }) => last)),
    causes: causes.toSorted((one, other) => other.jobs - one.jobs).slice(0, MOST_CAUSES),
    next,
  };
}

function isTaken(verb: VerbName, { state, is_later, is_child }: AlikeRow, at: number): boolean {
  const runAt = new Date(is_later === 1 ? at + 1 : at);
  return verbsFor({ state, runAt, parent: is_child === 1 ? 1 : null }, at).includes(verb);
}

/** Some of the selected jobs, by number, and after which job the others follow; null: there are no others. */
export async function selectStep(session: StoreSession, selection: JobSelection, at: number) {
  const { ids, next } = await findSelected(session, selection, at, STEP);
  if (ids !== null) return { ids, next };
  const found = await jobListsOf(session.statements).ids(oldest(selection, at, STEP + 1));
  return { ids: found.slice(0, STEP), next: found.length > STEP ? (found[STEP - 1] ?? null) : null };
}

/** Looks for the text; `ids` is null if there is none to look for. */
async function findSelected(session: StoreSession, selection: JobSelection, at: number, limit: number) {
  const { search } = selection;
  if (search === undefined) return { ids: null, next: null };
  if (search === '') throw invalid('The text to search for', 'some text', search, 'search');
  const filter = oldest(selection, at, limit);
  const wanted = { text: search, most: MOST_SEARCHED, isLate: lateAfter(LONGEST_SEARCH_MS) };
  const { ids, last } = await jobListsOf(session.statements).search(filter, wanted);
  return { ids, next: last };
}

function oldest(selection: JobSelection, at: number, limit: number): NumberedList {
  return { ...readFilter(selection, at), order: 'oldest', limit };
}

/** The result for one job of many. */
export interface ChangedOfMany {
  readonly id: number;
  readonly ok: boolean;
  /** Why it was refused; null: it was not. */
  readonly reason: string | null;
}

/** A transaction holds others up for as long as it lasts. */
const AT_ONCE = 50;

/**
 * Applies a verb to each job. Some share a transaction; if it refuses one of them, each gets a transaction of its own,
 * so that the others are changed nevertheless.
 *
 * @param apply applies the verb to jobs in one transaction
 * @throws {QueueError} for a wrong option, which is wrong for all jobs
 */
export async function changeMany(
  verb: VerbName,
  ids: readonly number[],
  options: object,
  apply: (jobs: readonly JobRef[]) => Promise<unknown>,
): Promise<ChangedOfMany[]> {
  checkOptions(verb, verbOf(verb).options, options);
  const changed: ChangedOfMany[] = [];
  for (let start = 0; start < ids.length; start += AT_ONCE) {
    const some = ids.slice(start, start + AT_ONCE);
    const isWhole = (await refusalOf(() => apply(some))) === null;
    for (const id of some) {
      const reason = isWhole ? null : await refusalOf(() => apply([id]));
      changed.push({ id, ok: reason === null, reason });
    }
  }
  return changed;
}

/** Why the queue refuses to do this; null: it was done. */
async function refusalOf(work: () => Promise<unknown>): Promise<string | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (!(error instanceof QueueError) || error.code === 'invalid') throw error;
    return error.message;
  }
}
