import { type ExpressionBuilder, type Kysely, sql } from 'kysely';
import type { Site } from '../../discovery/site.ts';
import { findPause } from '../../queue/pauses.ts';
import { type CrontabView, expectByCrontab, isRegularCall } from '../../schedule/crontab-times.ts';
import { dueChore, PASS_TRIES } from '../../schedule/due.ts';
import type { PreviousCall } from '../../schedule/expected-call.ts';
import { periodStart, tierPeriodMs } from '../../schedule/period.ts';
import type { ActivityLog } from '../../store/schema.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import {
  type JobState,
  type Outcome,
  type Trigger,
  type WorkerKind,
  workerKinds,
  workerStates,
} from '../../store/words.ts';
import { isDenied } from '../../system/base/errors.ts';
import { EXEC, isExecName } from '../../system/base/exec-name.ts';
import { quoting, record, shown, type Values } from '../../system/base/record.ts';
import type { LockHolder } from '../../system/lock/holder.ts';
import { findLockHolder } from '../../system/lock/lock-file.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness, type Liveness } from '../../system/process/identity.ts';
import { pauseRecord } from './pauses.ts';
import type { TimeWindow } from './runs/runs.ts';

const workerState = shown.words(workerStates);

/** One pass over a tier; one whose process is gone has crashed, be it recorded or not. */
export const passRecord = record('Pass', {
  id: shown.integer,
  state: workerState,
  scheduledFor: shown.instant.orNull,
  startedAt: shown.instant,
  finishedAt: shown.instant.orNull,
  /** Why it was skipped, or how it is known to have crashed. */
  reason: shown.text.like('exit code 3').orNull,
});

export interface RecordedPass extends Values<typeof passRecord> {
  readonly trigger: Trigger;
  /** Whether the process of a pass that has not ended can be seen from here; null for one that has. */
  readonly liveness: Liveness | null;
}

/** A worker that has a tier's lock. */
const holderRecord = record('TierHolder', {
  /** Null: it works without the log, and only its lock file shows it. */
  kind: shown.words(workerKinds).orNull,
  pid: shown.integer,
  host: shown.text.like('web3'),
  since: shown.instant,
});

export interface TierHolder extends Values<typeof holderRecord> {
  readonly tier: string;
}

/** The parts of a site that say how its tiers stand. */
export type SiteOfTiers = Pick<Site, 'view' | 'pauses' | 'crontab' | 'nowMs'>;

/** How a tier stands: who has it, when it was called, when it should be called next. */
export const tierStateRecord = record('TierState', {
  tier: shown.text.like('hourly'),
  periodMs: shown.number.orNull,
  /** The newest pass that had the lock. */
  lastPass: shown.one(record(null, { state: workerState, startedAt: shown.instant })).orNull,
  /** By cron, or whatever else calls it without a terminal; skipped calls too. */
  lastCalledBySchedule: shown.instant.orNull.from('lastScheduledCallMs'),
  isInCrontab: shown.flag.orNull.about('Null: the crontab cannot be read'),
  nextCall: shown.instant.orNull,
  isOverdue: shown.flag,
  isUncalled: shown.flag.about('No crontab line calls it, and nothing else does'),
  isDueAgain: shown.flag,
  /** The holder of its lock. */
  holder: shown.one(holderRecord).orNull,
  pause: shown.one(pauseRecord).orNull,
});

export interface TierState extends Values<typeof tierStateRecord>, CrontabView {
  readonly lastPass: RecordedPass | null;
  /** It is called by `runner due`, whenever that is. */
  readonly isDue: boolean;
  /**
   * The beginning of this period if its pass died and the next call of `runner due` takes that up; null:
   * there is no such pass, or cron calls the tier by its name, or it is shared by many machines: there the tags of
   * a script say what follows its crash, and all else is taken over by whoever comes next.
   */
  readonly dueAgainFor: number | null;
  readonly holder: TierHolder | null;
}

/** When a tier was last called, not by hand, and when it should be called next. */
async function readTierCalls({ view, crontab, nowMs }: Omit<SiteOfTiers, 'pauses'>, tier: string) {
  const { db } = await view();
  const lastCall = await selectLastCall(db, tier, { isByHand: false });
  const last = lastCall ?? (await selectSeen(db, tier));
  return { lastCall, calls: await expectByCrontab(tier, last, await crontab(), nowMs) };
}

/** How tiers stand, in their order, and who holds them. */
export async function readTierStates(site: SiteOfTiers & Pick<Site, 'states'>, tiers: readonly string[]) {
  const holders = await findHolders(site, tiers);
  const states = await Array.fromAsync(tiers, (tier) => readTierState(site, tier, holders));
  return { states, holders };
}

/** @param holders as `findHolders` gives them */
export async function readTierState(
  site: SiteOfTiers,
  tier: string,
  holders: readonly TierHolder[],
): Promise<TierState> {
  const { view, pauses, nowMs } = site;
  const { db } = await view();
  const { lastCall, calls } = await readTierCalls(site, tier);
  const lastPass = await selectLastPass(db, tier);
  const dueAgainFor = lastCall?.isDue && !isOnServer() ? await findDueAgain(db, tier, lastPass, nowMs) : null;
  return {
    tier,
    periodMs: tierPeriodMs(tier),
    lastPass,
    lastScheduledCallMs: lastCall?.atMs ?? null,
    ...calls,
    nextCallMs: calls.expected?.atMs ?? null,
    isOverdue: calls.expected?.isOverdue ?? false,
    isDue: lastCall?.isDue ?? false,
    isDueAgain: dueAgainFor !== null,
    dueAgainFor,
    holder: holders.find((holder) => holder.tier === tier) ?? null,
    pause: findPause(await pauses(), tier),
  };
}

async function findDueAgain(
  db: Kysely<ActivityLog>,
  tier: string,
  lastPass: RecordedPass | null,
  nowMs: number,
): Promise<number | null> {
  const start = periodStart(tier, nowMs);
  if (start === null || lastPass?.state !== 'crashed' || lastPass.startedAtMs < start) return null;
  const passes = await selectPasses(db, tier, { sinceMs: start, untilMs: nowMs + 1 });
  const crashed = passes.filter((pass) => pass.state === 'crashed' && pass.scheduledForMs === start);
  return crashed.length < PASS_TRIES ? start : null;
}

/** Holders of these tiers, by the log or, without it, by their lock files. */
export async function findHolders(
  { view, states }: Pick<Site, 'view' | 'states'>,
  tiers: readonly string[],
): Promise<TierHolder[]> {
  const known = await selectHolders((await view()).db);
  const others = tiers.filter((name) => !known.some(({ tier }) => tier === name));
  return [...known, ...others.flatMap((tier) => findFileHolder(states(), tier) ?? [])];
}

function findFileHolder(states: readonly StateFolder[], tier: string): TierHolder | null {
  for (const { locks } of states) {
    const holder = findReadableHolder(locks, tier);
    if (holder === null) continue;
    const { pid, host, since: sinceMs } = holder;
    return { tier, kind: null, pid, host, sinceMs };
  }
  return null;
}

/** A folder that this user may not read shows no holder. */
function findReadableHolder(locks: string, tier: string): LockHolder | null {
  try {
    return findLockHolder(locks, tier);
  } catch (error) {
    if (isDenied(error)) return null;
    throw error;
  }
}

/** Workers at work on a tier, whoever has died since left out. */
export async function selectHolders(db: Kysely<ActivityLog>): Promise<TierHolder[]> {
  const workers = await selectWorkersAtWork(db);
  return workers.flatMap(({ id: _, tier, ...worker }) => (tier === null ? [] : { tier, ...worker }));
}

interface WorkerAtWork extends Omit<TierHolder, 'tier'> {
  readonly id: number;
  readonly tier: string | null;
  readonly kind: WorkerKind;
}

export async function selectWorkersAtWork(db: Kysely<ActivityLog>): Promise<WorkerAtWork[]> {
  const workers = await db
    .selectFrom('workers')
    .innerJoin('hosts', 'hosts.id', 'workers.host_id')
    .select(['workers.id', 'tier', 'kind', 'pid', 'pid_start_ticks as startTicks', 'host', 'boot_id as bootId'])
    .select('started_at as sinceMs')
    .where('state', '=', sql.lit('running' as const))
    .orderBy('started_at')
    .orderBy('workers.id')
    .execute();
  return workers
    .filter((worker) => checkLiveness(worker) !== 'dead')
    .map(({ id, tier, kind, pid, host, sinceMs }) => ({ id, tier, kind, pid, host, sinceMs }));
}

/** When the newest pass or worker began. */
export async function selectNewestStart(db: Kysely<ActivityLog>): Promise<number | null> {
  const newest = await db
    .selectFrom('workers')
    .select('started_at as at')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest?.at ?? null;
}

/** When a tier was last called by hand, or not by hand; skipped calls too. */
export async function selectLastCall(
  db: Kysely<ActivityLog>,
  tier: string,
  { isByHand }: { readonly isByHand: boolean },
): Promise<PreviousCall | null> {
  const [last, before] = await db
    .selectFrom('workers')
    .select(['started_at', 'triggered_by'])
    .where('tier', '=', tier)
    // Literals: calls by hand are few, and have an index of their own.
    .where('kind', '=', kindOfPasses(tier))
    .where('triggered_by', isByHand ? '=' : '!=', sql.lit('manual' as const))
    // By number, not by time: the clock may have been set back.
    .orderBy(isByHand ? 'started_at' : 'id', 'desc')
    .limit(2)
    .execute();
  if (last === undefined) return null;
  const isRegular = before !== undefined && isRegularCall(tier, last.started_at, before.started_at);
  return { atMs: last.started_at, isDue: last.triggered_by === 'due', isRegular };
}

/** When `runner due` last called a tier of which the log has no pass, or first saw it: what follows is the same. */
export async function selectSeen(db: Kysely<ActivityLog>, tier: string): Promise<PreviousCall | null> {
  const seen = await db.selectFrom('chores').select('done_at').where('name', '=', dueChore(tier)).executeTakeFirst();
  return seen === undefined ? null : { atMs: seen.done_at, isDue: true };
}

const waitingStates = ['queued', 'claimed', 'deferred', 'linked', 'retrying'] as const;
type WaitingState = (typeof waitingStates)[number];

/**
 * A script's job that has not ended and does not run. `queued`: the worker of its tier comes to it. `claimed`: it begins
 * in a moment. `deferred`: the next call of any tier does. `linked`: it waits for other
 * scripts, or for its time of day. `retrying`: the first call of any tier after `runAtMs` does.
 */
export const waitingRecord = record('WaitingScript', {
  script: shown.text.like('hourly/clean-tmp'),
  tier: shown.text.like('hourly'),
  state: shown.words(waitingStates),
  since: shown.instant,
  runAt: shown.instant,
  /** How many tries it has had. */
  attempts: shown.integer,
  /** Why it was deferred, how its last try ended, or what it waits for. */
  reason: quoting.orNull,
});

export type WaitingScriptJob = Values<typeof waitingRecord>;

interface MayWait {
  /** Its script waits for other scripts, or for its time of day. */
  readonly mayHaveToWait: boolean;
}

/** Scripts' jobs that have not ended and do not run. */
export async function selectWaiting(
  db: Kysely<ActivityLog>,
  holders: readonly TierHolder[],
): Promise<(WaitingScriptJob & MayWait)[]> {
  const open = await db
    .selectFrom('jobs')
    .select(['name', 'tier', 'state', 'started_at', 'run_at', 'attempts', 'reason', 'links_met'])
    .where('tier', 'is not', null)
    .where('finished_at', 'is', null)
    .where('state', '!=', 'running')
    .$narrowType<{ tier: string }>()
    .orderBy('run_at')
    .orderBy('id')
    .execute();
  // In the order that they run in: what is tried again comes last.
  const isRetried = ({ state }: WaitingScriptJob): boolean => state === 'retrying';
  const waiting = open.map(({ name: script, tier, state, started_at, run_at, links_met, ...job }) => ({
    ...job,
    script,
    tier,
    state: waitingState({ tier, state, links_met, reason: job.reason }, holders),
    mayHaveToWait: links_met !== null,
    sinceMs: Math.min(run_at, started_at ?? run_at),
    runAtMs: run_at,
  }));
  return [...waiting.filter((job) => !isRetried(job)), ...waiting.filter(isRetried)];
}

/** A script's one row in `jobs`, as its last pass has left it. */
export interface ScriptJob {
  readonly state: JobState;
  readonly attempts: number;
  readonly scheduledForMs: number | null;
  /** When it was queued, or is tried again. */
  readonly runAtMs: number;
  readonly finishedAtMs: number | null;
  readonly reason: string | null;
}

export async function selectScriptJob(db: Kysely<ActivityLog>, script: string): Promise<ScriptJob | null> {
  const job = await db
    .selectFrom('jobs')
    .select(['state', 'attempts', 'scheduled_for as scheduledForMs', 'run_at as runAtMs'])
    .select(['finished_at as finishedAtMs', 'reason'])
    .where('name', '=', script)
    .where('tier', 'is not', null)
    .executeTakeFirst();
  return job ?? null;
}

interface OpenJob {
  readonly tier: string;
  readonly state: JobState;
  readonly links_met: number | null;
  readonly reason: string | null;
}

/**
 * A living worker gets to the jobs it holds. A job that a worker has left, or whose worker died, waits for another one.
 */
function waitingState(job: OpenJob, holders: readonly TierHolder[]): WaitingState {
  if (job.state === 'retrying') return 'retrying';
  if (job.state === 'queued' && job.links_met === 0) return 'linked';
  const holder = holders.find(({ tier }) => tier === job.tier);
  if (holder === undefined || job.reason !== null) return 'deferred';
  return job.state === 'claimed' ? 'claimed' : 'queued';
}

export interface SkippedPass extends RecordedPass {
  /** The pass of the same machine that had the tier; null: something else kept it away, or that pass is not recorded. */
  readonly heldBy: Pick<RecordedPass, 'startedAtMs' | 'finishedAtMs'> | null;
}

/** The tier's passes in the window, oldest first, skipped ones among them. */
async function selectPasses(db: Kysely<ActivityLog>, tier: string, window: TimeWindow): Promise<RecordedPass[]> {
  const passes = await passesOf(db, tier)
    .where('started_at', '>=', window.sinceMs)
    .where('started_at', '<', window.untilMs)
    .orderBy('started_at')
    .orderBy('workers.id')
    .execute();
  return passes.map(toPass);
}

/** The tier's calls in a window, which may be thousands: of each as little as will do. */
interface CallsInWindow {
  /** In ascending order, skipped ones among them. */
  readonly calls: readonly Pick<RecordedPass, 'startedAtMs' | 'trigger'>[];
  readonly skipped: number;
  readonly lastSkipped: SkippedPass | null;
}

export async function selectCalls(
  db: Kysely<ActivityLog>,
  tier: string,
  { sinceMs, untilMs }: TimeWindow,
): Promise<CallsInWindow> {
  const found = await db
    .selectFrom('workers')
    .select(['started_at as startedAtMs', 'triggered_by as trigger', 'state'])
    .where('kind', '=', kindOfPasses(tier))
    .where(namedBy(tier))
    .where('started_at', '>=', sinceMs)
    .where('started_at', '<', untilMs)
    .orderBy('started_at')
    .execute();
  const skipped = found.filter(({ state }) => state === 'skipped').length;
  const newest = newestBefore(db, tier, untilMs).where('state', '=', 'skipped');
  const last = skipped === 0 ? undefined : await newest.executeTakeFirst();
  return { calls: found, skipped, lastSkipped: last === undefined ? null : await addHolding(db, tier, last) };
}

/** The last call of the tier before that instant, skipped or not. */
export async function selectLastCallBefore(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<RecordedPass | null> {
  const pass = await newestBefore(db, tier, beforeMs).executeTakeFirst();
  return pass === undefined ? null : toPass(pass);
}

/** The last pass before that instant that had the lock. */
export async function selectNewestPass(
  db: Kysely<ActivityLog>,
  tier: string,
  beforeMs: number,
): Promise<RecordedPass | null> {
  const query = newestBefore(db, tier, beforeMs).where('state', '!=', 'skipped');
  const pass = await query.executeTakeFirst();
  return pass === undefined ? null : toPass(pass);
}

/** The newest pass that had the lock. */
async function selectLastPass(db: Kysely<ActivityLog>, tier: string): Promise<RecordedPass | null> {
  const query = passesOf(db, tier).where('state', '!=', 'skipped');
  // By number, not by time: the clock may have been set back.
  const pass = await query.orderBy('workers.id', 'desc').limit(1).executeTakeFirst();
  return pass === undefined ? null : toPass(pass);
}

/** The newest pass of a tier, if it was skipped: paused, held, or missed and not made up for. */
export async function selectSkippedPass(db: Kysely<ActivityLog>, tier: string): Promise<SkippedPass | null> {
  const query = passesOf(db, tier).orderBy('workers.id', 'desc').limit(1);
  const newest = await query.executeTakeFirst();
  return newest?.state === 'skipped' ? await addHolding(db, tier, newest) : null;
}

async function addHolding(db: Kysely<ActivityLog>, tier: string, skipped: PassRow): Promise<SkippedPass> {
  const pass = toPass(skipped);
  if (skipped.skipCode !== 'held') return { ...pass, heldBy: null };
  const query = newestBefore(db, tier, skipped.startedAtMs + 1)
    .where('state', '!=', 'skipped')
    .where('workers.id', '<', skipped.id)
    .where('host', '=', skipped.host);
  const before = await query.executeTakeFirst();
  const isOver = typeof before?.finishedAtMs === 'number' && before.finishedAtMs < skipped.startedAtMs;
  return { ...pass, heldBy: before === undefined || isOver ? null : toPass(before) };
}

/** How the runs of one pass ended: they began after it did, and before it ended, unless the clock was set back. */
export async function selectPassEnds(
  db: Kysely<ActivityLog>,
  { id, startedAtMs, finishedAtMs }: RecordedPass,
): Promise<{ outcome: Outcome; warning: string | null }[]> {
  const untilMs = finishedAtMs ?? Number.MAX_SAFE_INTEGER;
  const isInOrder = untilMs >= startedAtMs;
  return await db
    .selectFrom('scripts')
    .crossJoin('runs')
    .select(['outcome', 'warning'])
    .whereRef('runs.script_id', '=', 'scripts.id')
    .where('started_at', '>=', isInOrder ? startedAtMs : 0)
    .where('started_at', '<=', isInOrder ? untilMs : Number.MAX_SAFE_INTEGER)
    .where('worker_id', '=', id)
    .execute();
}

function passesOf(db: Kysely<ActivityLog>, tier: string) {
  return (
    db
      .selectFrom('workers')
      .innerJoin('hosts', 'hosts.id', 'workers.host_id')
      .select([
        'workers.id',
        'state',
        'triggered_by as trigger',
        'scheduled_for as scheduledForMs',
        'started_at as startedAtMs',
        'finished_at as finishedAtMs',
        'reason',
        'skip_code as skipCode',
        'pid',
        'pid_start_ticks as startTicks',
        'host',
        'boot_id as bootId',
      ])
      // A literal, as an index holds these alone.
      .where('kind', '=', kindOfPasses(tier))
      .where(namedBy(tier))
  );
}

/** A command of `runner exec` has a pass of its own for each call, which is that of one script. */
function kindOfPasses(tier: string) {
  return tier === EXEC || isExecName(tier) ? sql.lit('script' as const) : sql.lit('tier' as const);
}

/** Those of all commands are named like tiers of their own. */
function namedBy(tier: string) {
  return ({ eb }: ExpressionBuilder<ActivityLog, 'workers'>) =>
    tier === EXEC ? eb('tier', 'like', `${EXEC}/%`) : eb('tier', '=', tier);
}

type PassRow = Awaited<ReturnType<ReturnType<typeof passesOf>['executeTakeFirstOrThrow']>>;

function toPass({ pid, startTicks, host, bootId, skipCode: _, ...row }: PassRow): RecordedPass {
  if (row.state !== 'running') return { ...row, liveness: null };
  const liveness = checkLiveness({ pid, startTicks, host, bootId });
  if (liveness !== 'dead') return { ...row, liveness };
  return {
    ...row,
    state: 'crashed',
    reason: 'its process has gone without finishing',
    liveness: null,
  };
}

function newestBefore(db: Kysely<ActivityLog>, tier: string, beforeMs: number) {
  return passesOf(db, tier)
    .where('started_at', '<', beforeMs)
    .orderBy('started_at', 'desc')
    .orderBy('workers.id', 'desc')
    .limit(1);
}

/**
 * Every tier that was ever called. Each step jumps to the next name in the index, where a plain
 * `distinct` would read all of it.
 */
export async function selectTierNames(db: Kysely<ActivityLog>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    with recursive names (name) as (
      select min(tier) from workers
      union all
      select (select min(tier) from workers where tier > names.name)
      from names where names.name is not null
    )
    select name from names where name is not null`.execute(db);
  return rows.map(({ name }) => name).filter((name) => !isExecName(name));
}
