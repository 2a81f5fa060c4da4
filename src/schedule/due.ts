import type { CatchUp } from '../settings/settings.ts';
import type { StoreSession } from '../store/contract/store.ts';
import type { WorkerState } from '../store/words.ts';

/** The newest pass of a tier that had its lock. */
export interface LastPass {
  readonly state: WorkerState;
  readonly startedAt: number;
}

/** How many passes of a period may die: what kills its pass every time must not do so for ever. */
export const PASS_TRIES = 2;

const hadLock = ['running', 'finished', 'crashed'] as const;

export async function readLastPass({ workers }: Pick<StoreSession, 'workers'>, tier: string): Promise<LastPass | null> {
  const [last] = await workers.passes(tier, { states: hadLock, limit: 1 });
  return last ?? null;
}

/**
 * The chore that tells when `runner due` last called a tier; before its first call, when it first saw the tier. The log
 * forgets passes: that of a yearly tier is gone before the next one is due.
 */
export function dueChore(tier: string): string {
  return `due ${tier}`;
}

/** When `runner due` last called a tier of which the log has no pass, or first saw it: now, if this call is the first. */
export async function readSeen({ chores }: Pick<StoreSession, 'chores'>, tier: string, at: number): Promise<number> {
  const seenAt = await chores.doneAt(dueChore(tier));
  // A clock that was ahead then has noted a time that is still to come.
  return seenAt === null || seenAt > at + CORRECTION_MS ? at : seenAt;
}

/** The same, and notes it for the calls that follow. */
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

/** Whether it is recorded that the pass that stands for this period was missed. */
export async function isMissRecorded(
  { workers }: Pick<StoreSession, 'workers'>,
  tier: string,
  scheduledFor: number,
): Promise<boolean> {
  const ofPeriod = { scheduledFor, startedFrom: scheduledFor, states: ['skipped'] as const };
  const skipped = await workers.passes(tier, { ...ofPeriod, limit: 1_000 });
  return skipped.some(({ skipCode }) => skipCode === 'missed');
}

/** What is known of a tier when somebody asks whether it is due. */
export interface DueFacts {
  /** When the period began that holds this instant. */
  readonly start: number;
  readonly at: number;
  readonly last: LastPass | null;
  /** Where the log has no pass of it: when it was last called, or first seen. */
  readonly seenAt: number;
  /** How many passes for this period have died. */
  readonly crashes: number;
  readonly catchUp: CatchUp;
}

/** `missed`: it would be due, but is too late to be made up for. */
type DueDecision = 'due' | 'not-due' | 'missed';

/** A tier that isn't to be caught up runs at its time, give or take what calls once an hour allow. */
const LATE_MS = 3_600_000;

/** A clock that is corrected by a moment has not been set back. */
const CORRECTION_MS = 60_000;

/**
 * A tier is due once a new period has begun since its last pass began, or since it was first seen; however many were
 * missed, that is one pass. Pure: instants are epoch milliseconds.
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
