import type { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import { periodStart, tierPeriodMs } from '../discovery/tier-period.ts';
import { findLockHolder } from '../lock/lock-file.ts';
import {
  countCrashedPasses,
  type LastPass,
  PASS_TRIES,
  selectLastPass,
} from '../queue/last-pass.ts';
import { findPause, type Pause } from '../queue/pauses.ts';
import type { ActivityLog, WorkerKind } from '../store/schema.ts';
import { type ExpectedCall, expectCall, type LastCall } from './expect-call.ts';

/** How a tier stands: who has it, when it was called, when it should be called next. */
export interface TierState {
  readonly tier: string;
  readonly periodMs: number | null;
  /** The newest pass that had the lock. */
  readonly lastPass: LastPass | null;
  /** By cron, or whatever else calls it without a terminal; skipped calls too. */
  readonly lastScheduledCallMs: number | null;
  readonly expected: ExpectedCall | null;
  /**
   * The beginning of this period if its pass died and the next call of `runner due` takes that up; null:
   * there is no such pass, or cron calls the tier by its name.
   */
  readonly dueAgainFor: number | null;
  /** Who has its lock. */
  readonly holder: TierHolder | null;
  readonly pause: Pause | null;
}

/** A worker that has a tier's lock. */
export interface TierHolder {
  readonly tier: string;
  /** Null: it works without the log, and only its lock file tells of it. */
  readonly kind: WorkerKind | null;
  readonly pid: number;
  readonly host: string;
  readonly sinceMs: number;
}

/** What is asked once for all tiers. */
export interface TierFacts {
  readonly holders: readonly TierHolder[];
  readonly pauses: readonly Pause[];
  readonly nowMs: number;
}

export async function readTierState(
  db: Kysely<ActivityLog>,
  tier: string,
  { holders, pauses, nowMs }: TierFacts,
): Promise<TierState> {
  const lastCall = await selectLastCall(db, tier, { isByHand: false });
  const lastPass = await selectLastPass(db, tier);
  return {
    tier,
    periodMs: tierPeriodMs(tier),
    lastPass,
    lastScheduledCallMs: lastCall?.atMs ?? null,
    expected: expectCall(tier, lastCall, nowMs),
    dueAgainFor: lastCall?.isDue ? await findDueAgain(db, tier, lastPass, nowMs) : null,
    holder: holders.find((holder) => holder.tier === tier) ?? null,
    pause: findPause(pauses, tier),
  };
}

async function findDueAgain(
  db: Kysely<ActivityLog>,
  tier: string,
  lastPass: LastPass | null,
  nowMs: number,
): Promise<number | null> {
  const start = periodStart(tier, nowMs);
  if (start === null || lastPass?.state !== 'crashed' || lastPass.startedAt < start) return null;
  return (await countCrashedPasses(db, tier, start)) < PASS_TRIES ? start : null;
}

/** Who has these tiers, by the log or, without it, by their lock files. */
export async function findHolders(
  db: Kysely<ActivityLog>,
  states: readonly StateFolder[],
  tiers: readonly string[],
): Promise<TierHolder[]> {
  const known = await selectHolders(db);
  const others = tiers.filter((name) => !known.some(({ tier }) => tier === name));
  return [...known, ...others.flatMap((tier) => findFileHolder(states, tier) ?? [])];
}

function findFileHolder(states: readonly StateFolder[], tier: string): TierHolder | null {
  for (const { locks } of states) {
    const holder = findLockHolder(locks, tier);
    if (holder === null) continue;
    const { pid, host, since: sinceMs } = holder;
    return { tier, kind: null, pid, host, sinceMs };
  }
  return null;
}

/** Workers that the log believes to be at work. */
export async function selectHolders(db: Kysely<ActivityLog>): Promise<TierHolder[]> {
  return await db
    .selectFrom('workers')
    .select(['tier', 'kind', 'pid', 'host', 'started_at as sinceMs'])
    .where('state', '=', 'running')
    .where('tier', 'is not', null)
    .$narrowType<{ tier: string }>()
    .orderBy('started_at')
    .execute();
}

/** When a tier was last called by hand, or not by hand; skipped calls too. */
export async function selectLastCall(
  db: Kysely<ActivityLog>,
  tier: string,
  { isByHand }: { readonly isByHand: boolean },
): Promise<LastCall | null> {
  const last = await db
    .selectFrom('workers')
    .select(['started_at', 'called_by'])
    .where('tier', '=', tier)
    .where('kind', '=', 'tier')
    .where('called_by', isByHand ? '=' : '!=', 'hand')
    .orderBy('started_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return last === undefined ? null : { atMs: last.started_at, isDue: last.called_by === 'due' };
}
