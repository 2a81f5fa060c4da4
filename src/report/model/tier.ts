import type { Kysely } from 'kysely';
import { findLockHolder } from '../../lock/lock-file.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { checkLiveness, type Liveness } from '../../process/identity.ts';
import { type OpenJob, selectOpenJobs } from '../../queue/add/scripts.ts';
import { findPause, type Pause } from '../../queue/pauses.ts';
import {
  countCrashedPasses,
  type LastPass,
  PASS_TRIES,
  selectLastPass,
} from '../../schedule/due.ts';
import { type ExpectedCall, expectCall, type PreviousCall } from '../../schedule/expected-call.ts';
import { periodStart, tierPeriodMs } from '../../schedule/period.ts';
import type {
  ActivityLog,
  CalledBy,
  Outcome,
  WorkerKind,
  WorkerState,
} from '../../store/schema.ts';
import type { RunningRun } from './run.ts';
import type { TimeWindow } from './runs.ts';

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
interface TierFacts {
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
): Promise<PreviousCall | null> {
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

/** Jobs that are open and not running. */
export async function selectWaiting(
  db: Kysely<ActivityLog>,
  holders: readonly TierHolder[],
): Promise<WaitingScriptJob[]> {
  const open = await selectOpenJobs(db);
  return open.filter(({ state }) => state !== 'running').map((job) => toWaiting(job, holders));
}

function toWaiting(job: OpenJob, holders: readonly TierHolder[]): WaitingScriptJob {
  return {
    script: job.name,
    tier: job.tier,
    state: waitingState(job, holders),
    sinceMs: job.createdAt,
    runAtMs: job.runAt,
    attempts: job.attempts,
    maxAttempts: job.maxAttempts,
    reason: job.reason,
  };
}

/** What a worker has in its hands it comes to; what it has left, or died before, waits for another one. */
function waitingState(job: OpenJob, holders: readonly TierHolder[]): WaitingState {
  if (job.state === 'retrying') return 'retrying';
  const holder = holders.find(({ tier }) => tier === job.tier);
  return holder === undefined || job.reason !== null ? 'deferred' : 'queued';
}

/** How things stand at one moment. */
export interface Status {
  readonly atMs: number;
  /** Oldest first. */
  readonly running: readonly StatusRun[];
  readonly holders: readonly TierHolder[];
  /** In the order that they run in. */
  readonly waiting: readonly WaitingScriptJob[];
  readonly pauses: readonly Pause[];
  readonly queue: QueueStatus;
  /** Shortest period first, those without one last. */
  readonly tiers: readonly TierState[];
  /** There is a log, and it could not be read: what it would tell is not known. */
  readonly isLogUnread: boolean;
  /** Runs were recorded without the log, and wait to be taken into it. */
  readonly hasSpool: boolean;
  /** Logs that could not be read, by the names of their files. */
  readonly setAside: readonly string[];
}

export interface StatusRun extends RunningRun {
  /** What it usually takes; null: it never succeeded. */
  readonly usualDurationMs: number | null;
}

/**
 * `queued`: the worker of its tier comes to it. `deferred`: the next call of any tier does.
 * `retrying`: the first call of any tier after `runAtMs` does.
 */
type WaitingState = 'queued' | 'deferred' | 'retrying';

export interface WaitingScriptJob {
  readonly script: string;
  readonly tier: string;
  readonly state: WaitingState;
  readonly sinceMs: number;
  readonly runAtMs: number;
  /** How many tries it has had, and how many it may have. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** Why it was deferred, or how its last try ended. */
  readonly reason: string | null;
}

/** How the queue stands at one moment. */
export interface QueueStatus {
  readonly counts: QueueCounts;
  /** Of jobs that wait, those that nothing in `jobs/queue/` here is for; most jobs first. */
  readonly withoutHandler: readonly UnhandledName[];
  /** How many workers of the queue live. */
  readonly workers: number;
}

/** Jobs that are to be tried again count among those that wait. */
export interface QueueCounts {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  readonly paused: number;
  readonly failed: number;
}

/** How many jobs of a name wait. */
export interface UnhandledName {
  readonly name: string;
  readonly jobs: number;
  /** The handler that may have been meant; null: none has such a name. */
  readonly nearest: string | null;
}

/** Whether there is anything to tell. */
export function isQueueQuiet({ counts, workers }: QueueStatus): boolean {
  return workers === 0 && Object.values(counts).every((count) => count === 0);
}

/** One pass over a tier. */
export interface RecordedPass {
  readonly id: number;
  readonly state: WorkerState;
  readonly calledBy: CalledBy;
  readonly scheduledForMs: number | null;
  readonly startedAtMs: number;
  readonly finishedAtMs: number | null;
  /** Why it was skipped, or how it is known to have crashed. */
  readonly reason: string | null;
}

/** The tier's passes in the window, oldest first, skipped ones among them. */
export async function selectPasses(
  db: Kysely<ActivityLog>,
  tier: string,
  window: TimeWindow,
): Promise<RecordedPass[]> {
  return await passesOf(db, tier)
    .where('started_at', '>=', window.sinceMs)
    .where('started_at', '<', window.untilMs)
    .orderBy('started_at')
    .orderBy('id')
    .execute();
}

/** The last call of the tier before that instant, skipped or not. */
export async function selectLastCallBefore(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<RecordedPass | null> {
  return await newestBefore(db, tier, beforeMs).executeTakeFirst().then(orNull);
}

/** The last pass before that instant that had the lock. */
export async function selectNewestPass(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<RecordedPass | null> {
  const query = newestBefore(db, tier, beforeMs).where('state', '!=', 'skipped');
  return await query.executeTakeFirst().then(orNull);
}

/** How the runs of one pass ended. */
export async function selectPassOutcomes(
  db: Kysely<ActivityLog>,
  passId: number,
): Promise<Outcome[]> {
  const query = db.selectFrom('runs').select('outcome').where('worker_id', '=', passId);
  return (await query.execute()).map((row) => row.outcome);
}

/** Whether the process of that pass still lives. */
export async function selectPassLiveness(
  db: Kysely<ActivityLog>,
  passId: number,
): Promise<Liveness> {
  const row = await db
    .selectFrom('workers')
    .select(['host', 'boot_id as bootId', 'pid', 'pid_start_ticks as startTicks'])
    .where('id', '=', passId)
    .executeTakeFirst();
  return row === undefined ? 'dead' : checkLiveness(row);
}

function passesOf(db: Kysely<ActivityLog>, tier: string) {
  return db
    .selectFrom('workers')
    .select([
      'id',
      'state',
      'called_by as calledBy',
      'scheduled_for as scheduledForMs',
      'started_at as startedAtMs',
      'finished_at as finishedAtMs',
      'reason',
    ])
    .where('kind', '=', 'tier')
    .where('tier', '=', tier);
}

function newestBefore(db: Kysely<ActivityLog>, tier: string, beforeMs: number) {
  return passesOf(db, tier)
    .where('started_at', '<', beforeMs)
    .orderBy('started_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1);
}

function orNull(pass: RecordedPass | undefined): RecordedPass | null {
  return pass ?? null;
}
