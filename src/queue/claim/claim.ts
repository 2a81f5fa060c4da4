import type {
  ClaimedRow,
  ClaimRef,
  ClaimRequest,
  LastingRun,
  Pause,
  Selection,
  StoreSession,
} from '../../store/contract.ts';
import { matchAny } from '../glob.ts';
import { pausedPatterns } from '../pauses.ts';
import { isWaiting } from '../read/list.ts';
import { stateOfRetriedChild } from '../settle/families.ts';
import { applyTransition } from '../settle/settle.ts';

/** Which names somebody wants; null: whatever has a handler, or all. */
export interface WantedNames {
  /** The names that can be wanted at all, if there is a list of them. */
  readonly names: readonly string[] | null;
  isWanted(name: string): boolean;
}

/** What may be handed out now. */
export interface QueueSelection extends Selection {
  /** Whether jobs of this name fail instead of being taken. */
  failsFast(name: string): boolean;
}

/** What is wanted, without what is paused. */
export function selectionOf(
  { names, isWanted }: WantedNames,
  pauses: readonly Pause[],
  groupLimit: number | null,
): QueueSelection {
  const { paused, failFast } = pausedPatterns(pauses);
  return {
    names,
    groupLimit,
    isWanted: (name) => isWanted(name) && !matchAny(paused, name),
    failsFast: (name) => matchAny(failFast, name),
  };
}

export interface QueueClaim extends Omit<ClaimRequest, 'selection'> {
  readonly selection: QueueSelection;
  readonly missedCap: number;
}

/** So many jobs fail fast in one transaction: nobody else can write meanwhile. */
const MOST_FAILED = 500;

/** Takes the jobs that are next, up to so many. To be called in a transaction. */
export async function claimJobs(session: StoreSession, claim: QueueClaim): Promise<ClaimedRow[]> {
  const { selection, count } = claim;
  const claimed: ClaimedRow[] = [];
  let failed = 0;
  while (claimed.length < count && failed < MOST_FAILED) {
    const next = await session.claims.claim({ ...claim, count: count - claimed.length });
    if (next.length === 0) break;
    for (const job of next) {
      if (!selection.failsFast(job.name)) claimed.push(job);
      else {
        await failFast(session, job, claim);
        failed += 1;
      }
    }
    if (next.every((job) => !selection.failsFast(job.name))) break;
  }
  // What fails had a place in its group: another one of that came only behind what is in no group.
  return failed === 0 ? claimed : claimed.toSorted(compareTurns);
}

function compareTurns(one: ClaimedRow, other: ClaimedRow): number {
  return other.priority - one.priority || one.run_at - other.run_at || one.id - other.id;
}

/** None of its tries has begun. */
async function failFast(session: StoreSession, job: ClaimedRow, { at, missedCap, state }: QueueClaim): Promise<void> {
  const attempts = state === 'running' ? job.attempts - 1 : job.attempts;
  const reason = 'jobs of its name are set to fail at once';
  const facts = { at, reason, context: { missedCap }, isRun: false };
  await applyTransition(session, { ...job, attempts }, { kind: 'fail' }, facts);
}

/**
 * What was claimed has begun, and is seen by others from now on.
 *
 * @returns the number of the run's row; null: the claim was lost meanwhile
 */
export async function beginRun(session: StoreSession, claim: ClaimRef, run: LastingRun): Promise<number | null> {
  if ((await session.claims.held([claim])).length === 0) return null;
  const { startedAt: started_at, attempt: attempts } = run;
  const set = { state: 'running' as const, started_at, attempts, reason: null };
  await session.jobs.change([{ id: claim.id, set }], started_at);
  const [id] = await session.runs.start([run]);
  return id ?? null;
}

/**
 * Gives back what was claimed and has not begun. A child is only taken while its parent waits for it, and
 * that may have been cancelled meanwhile. To be called in a transaction.
 */
export async function releaseClaims(session: StoreSession, claims: readonly ClaimRef[], at: number): Promise<void> {
  const ids = claims.map(({ id }) => id);
  await session.jobs.lock(ids);
  await session.claims.release(claims, at);
  for (const job of await session.jobs.byId(ids)) {
    if (job.parent_id === null || !isWaiting(job.state)) continue;
    const state = await stateOfRetriedChild(session, job.parent_id);
    if (state === 'paused') await session.jobs.change([{ id: job.id, set: { state } }], at);
    if (state !== 'cancelled') continue;
    const reason = `its parent, job ${job.parent_id}, has ended`;
    const facts = { at, reason, context: { missedCap: 0 }, isRun: false };
    await applyTransition(session, job, { kind: 'cancel' }, facts);
  }
}
