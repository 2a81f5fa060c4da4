import type { CatchUp } from '../settings/settings.ts';
import type { StoreSession } from '../store/store.ts';
import type { WorkerState } from '../store/words.ts';

/** The newest pass of a tier that held its lock. */
export interface LastPass {
  readonly state: WorkerState;
  readonly startedAt: number;
}

/** How many passes of a period may die. A script that kills its pass each time must not do so for ever. */
export const PASS_TRIES = 2;

const hadLock = ['running', 'finished', 'crashed'] as const;

export async function readLastPass({ workers }: Pick<StoreSession, 'workers'>, tier: string): Promise<LastPass | null> {
  const [last] = await workers.passes(tier, { states: hadLock, limit: 1 });
  return last ?? null;
}

/**
 * The chore that records when `runner due` last called a tier; before the first call, when it first saw the tier. The
 * log alone does not suffice: it forgets the pass of a yearly tier before the next one is due.
 */
export function dueChore(tier: string): string {
  return `due ${tier}`;
}

/**
 * For a tier without a pass in the log: when `runner due` last called or first saw it; now, if this call is the first.
 */
export async function readSeen({ chores }: Pick<StoreSession, 'chores'>, tier: string, at: number): Promise<number> {
  const seenAt = await chores.doneAt(dueChore(tier));
  // If the clock was ahead at that time, the noted time is still to come: ignore it.
  return seenAt === null || seenAt > at + CORRECTION_MS ? at : seenAt;
}

/** Like `readSeen`, and records the time for later calls. */
export async function noteSeen(store: Pick<StoreSession, 'chores'>, tier: string, at: number): Promise<number> {
  const seenAt = await readSeen(store, tier, at);
  if (seenAt === at) await store.chores.setDone(dueChore(tier), at);
  return seenAt;
}

/** How many passes that stand for this period have died. */
export async function countCrashedPasses(
  { workers }: Pick<StoreSession, 'workers'>,
  tier: string,
  scheduledFor: number,
): Promise<number> {
  const ofPeriod = { scheduledFor, startedFrom: scheduledFor, states: ['crashed'] as const };
  return (await workers.passes(tier, { ...ofPeriod, limit: PASS_TRIES })).length;
}

/** Whether the log records that the pass of this period was missed. */
export async function isMissRecorded(
  { workers }: Pick<StoreSession, 'workers'>,
  tier: string,
  scheduledFor: number,
): Promise<boolean> {
  const ofPeriod = { scheduledFor, startedFrom: scheduledFor, states: ['skipped'] as const };
  const skipped = await workers.passes(tier, { ...ofPeriod, limit: 1_000 });
  return skipped.some(({ skipCode }) => skipCode === 'missed');
}

/** The facts that decide whether a tier is due. Instants are epoch milliseconds. */
export interface DueFacts {
  /** Start of the period that contains `at`. */
  readonly start: number;
  readonly at: number;
  readonly last: LastPass | null;
  /** When the tier was last called or first seen; used if the log has no pass of it. */
  readonly seenAt: number;
  /** How many passes for this period have died. */
  readonly crashes: number;
  readonly catchUp: CatchUp;
}

/** `missed`: the tier would be due, but it is too late to make up for the pass. */
type DueDecision = 'due' | 'not-due' | 'missed';

/** Longest delay of a tier that does not catch up. `runner due` may be called only once an hour. */
const LATE_MS = 3_600_000;

/** A clock that is corrected by up to this much does not count as set back. */
const CORRECTION_MS = 60_000;

/**
 * A tier is due when a new period has begun since its last pass began, or since it was first seen. Several missed
 * periods make one pass. Pure: instants are epoch milliseconds.
 */
export function decideDue({ start, at, last, seenAt, crashes, catchUp }: DueFacts): DueDecision {
  const tooLate = catchUp === 'skip' && at - start > LATE_MS;
  if (last === null) return seenAt >= start ? 'not-due' : tooLate ? 'missed' : 'due';
  if (last.startedAt > at + CORRECTION_MS) return 'due';
  if (last.state === 'running') return 'not-due';
  if (last.startedAt >= start) {
    return last.state === 'crashed' && crashes < PASS_TRIES ? 'due' : 'not-due';
  }
  return tooLate ? 'missed' : 'due';
}
