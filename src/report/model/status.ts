import { basename } from 'node:path';
import { type Kysely, sql } from 'kysely';
import { findQuarantined } from '../../checks/place.ts';
import { handlerNames } from '../../discovery/discover.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { withoutParameters } from '../../discovery/script.ts';
import type { LogView, Site } from '../../discovery/site.ts';
import { foresee } from '../../monitor/alert/incidents.ts';
import { readDifferences } from '../../monitor/machines.ts';
import { listWaiters, type Waiter } from '../../queue/claim/waiters.ts';
import type { ActivityLog, IncidentRow } from '../../store/schema.ts';
import { hasSpool, listSpoolFiles } from '../../store/spool/files.ts';
import { isDenied } from '../../system/base/errors.ts';
import { field, record, shown, type Values } from '../../system/base/record.ts';
import { nearestPath } from '../../system/base/suggest.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { machineName } from '../../system/process/identity.ts';
import { graded, type Incident, incidentRecord, selectOpenIncidents, withErrors } from './incidents.ts';
import { nextTimeRecord, readNextTimes } from './next/next-times.ts';
import { readStrain, type TotalPace, totalPaceRecord } from './pace.ts';
import { pauseRecord } from './pauses.ts';
import { type RunningRun, runningRecord, selectRunning } from './runs/run.ts';
import { noRises, type Rises, readRises, readUsual, risesRecord } from './runs/script.ts';
import {
  readTierStates,
  selectWorkersAtWork,
  type TierHolder,
  type TierState,
  tierStateRecord,
  waitingRecord,
} from './tier.ts';
import { type Judged, judgeSite, troubleRecord, verdictRecord } from './verdict.ts';
import { readWaiting } from './waiting.ts';

const statusRunRecord = record(null, {
  ...runningRecord.fields,
  /** Usual duration; null: it never succeeded. */
  usualDurationMs: shown.number.orNull,
});

export interface StatusRun extends RunningRun, Values<typeof statusRunRecord> {}

const risenRecord = record(null, { script: shown.text.like('hourly/clean-tmp'), ...risesRecord.fields });

/** Somebody who is no worker of the runner and waits for a job. */
export const waiterRecord = record('Waiter', {
  host: shown.text.like('web3'),
  pid: shown.integer,
  patterns: shown.list(field.text),
  since: shown.instant,
});

/** How many jobs wait for a handler. */
const unhandledRecord = record(null, {
  /** The handler's: without parameters. */
  name: shown.text.like('mail/welcome'),
  jobs: shown.integer,
  /** The handler that may have been meant; null: none has such a name. */
  nearest: shown.text.like('mail/welcome').orNull,
});

export type UnhandledName = Values<typeof unhandledRecord>;

/** Jobs that are to be tried again count among those that wait, claimed ones among the running ones. */
export type QueueCounts = Readonly<Record<'ready' | 'delayed' | 'running' | 'paused' | 'failed', number>>;

/** Null: the log cannot be read. */
const count = shown.integer.orNull;

/** How the queue stands at one moment. */
const queueRecord = record('QueueStatus', {
  ready: count,
  delayed: count,
  running: count,
  paused: count,
  failed: count,
  workers: count,
  idleWorkers: count,
  waiting: shown.list(field.one(waiterRecord)),
  withoutHandler: shown.list(field.one(unhandledRecord)),
  pace: shown.one(totalPaceRecord).orNull.about('Of all names, as in `jobs/pace`; null: the workers keep up'),
});

export interface QueueStatus {
  readonly counts: QueueCounts;
  /** Names of waiting jobs that no handler in `jobs/queue/` here takes; most jobs first. */
  readonly withoutHandler: readonly UnhandledName[];
  /** How many workers of the queue live. */
  readonly workers: number;
  /** How many of these have no job now. */
  readonly idleWorkers: number;
  /** Other programs that wait for jobs. */
  readonly waiting: readonly Waiter[];
}

export interface PacedQueue extends QueueStatus {
  /** The pace of all names together; null: the workers keep up. */
  readonly pace: TotalPace | null;
}

/** How things stand at one moment. */
export const statusRecord = record('Status', {
  at: shown.instant,
  site: shown.text
    .like('shop.example')
    .about('The name of the site: the setting `siteName`, otherwise the root’s folder and the machine'),
  verdict: shown.one(verdictRecord),
  troubles: shown.list(field.one(troubleRecord)),
  /** Incidents that are not over, oldest first. */
  incidents: shown.list(field.one(incidentRecord)),
  /** Oldest first. */
  running: shown.list(field.one(statusRunRecord)),
  /** In the order that they run in. */
  waiting: shown.list(field.one(waitingRecord)),
  pauses: shown.list(field.one(pauseRecord)),
  /** By the names of their files. */
  disabled: shown.list(field.text).about('Disabled scripts and handlers'),
  queue: shown.one(queueRecord),
  /** Shortest period first, those without one last. */
  tiers: shown.list(field.one(tierStateRecord)),
  scheduled: shown.list(field.one(nextTimeRecord)).about('Scripts with times of their own'),
  isLogUnread: shown.flag,
  /** How many runs were recorded without the log, and wait to be replayed into it. */
  spooledRuns: shown.integer,
  /** Logs that could not be read, by the names of their files. */
  quarantinedLogs: shown.list(field.text),
  risen: shown
    .list(field.one(risenRecord))
    .about('Scripts that are slower or need more memory than usual, the most slowed down first'),
  /** One sentence each. */
  differences: shown.list(field.text).about('Scripts that differ between machines'),
});

interface UnjudgedStatus extends Omit<Values<typeof statusRecord>, 'queue' | keyof Judged> {
  readonly incidents: readonly Incident[];
  readonly running: readonly StatusRun[];
  readonly holders: readonly TierHolder[];
  readonly tiers: readonly TierState[];
  readonly queue: PacedQueue;
}

export interface Status extends UnjudgedStatus, Judged {}

/** The status with the queue's figures, which are null if the log cannot be read. */
export function withFigures(status: Status) {
  const { counts, workers, idleWorkers, ...lists } = status.queue;
  const figures = { ...counts, workers, idleWorkers };
  const unknown = Object.fromEntries(Object.keys(figures).map((name) => [name, null]));
  const queue = { ...lists, ...figures, ...(status.isLogUnread ? unknown : {}) };
  return { ...status, queue };
}

/** Whether there is anything to tell. */
export function isQueueQuiet({ counts, workers, waiting }: QueueStatus): boolean {
  return workers + waiting.length === 0 && Object.values(counts).every((count) => count === 0);
}

/** Reads everything that `runner status` shows. */
export async function readStatus(site: Site): Promise<Status> {
  const status = await readUnjudged(site);
  return { ...status, ...(await judgeSite(site, status)) };
}

/** The same without what the health checks find, for views that do not show it. */
export async function readUnjudged(site: Site): Promise<UnjudgedStatus> {
  const { root, store, nowMs } = site;
  const log = await site.view();
  const { db } = log;
  const { discovery, disabled, settings } = await site.jobs();
  const folders = site.states();
  const rises = await readRises(store, nowMs);
  const { states: tiers, holders } = await readTierStates(site, tierNames(root));
  const incidents = await foresee(store, { root, nowMs }, await selectOpenIncidents(log));
  const waiters = folders.flatMap((each) => listWaiters(each, nowMs));
  const queue = await readQueueStatus(db, { handlers: handlerNames(discovery), nowMs, waiting: waiters });
  return {
    atMs: nowMs,
    site: settings.siteName ?? `${basename(root)} on ${machineName()}`,
    incidents: (await withErrors(log, incidents.filter(isOpen))).map(graded),
    running: await readRunning(log, site, rises),
    holders,
    waiting: await readWaiting(site, holders),
    pauses: await site.pauses(),
    disabled: disabled.map(({ name }) => name),
    queue: { ...queue, pace: await readStrain(site, queue.counts.ready) },
    tiers: tiers.toSorted(byPeriod),
    scheduled: await readNextTimes(site, discovery.tiers, tiers),
    isLogUnread: site.problem !== null,
    spooledRuns: await countSpooledRuns(folders),
    quarantinedLogs: folders.flatMap(({ path }) => listQuarantined(path)),
    risen: [...rises].map(([script, risen]) => ({ script, ...risen })),
    differences: store === null ? [] : await readDifferences(store, nowMs),
  };
}

/** A folder that this user may not read counts as empty. */
function listQuarantined(folder: string): string[] {
  try {
    return findQuarantined(folder);
  } catch (error) {
    if (isDenied(error)) return [];
    throw error;
  }
}

const isOpen = ({ recovered_at }: IncidentRow): boolean => recovered_at === null;

function byPeriod(one: TierState, other: TierState): number {
  return (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
}

async function readRunning(
  log: LogView,
  { store, nowMs }: Pick<Site, 'store' | 'nowMs'>,
  rises: ReadonlyMap<string, Rises>,
): Promise<StatusRun[]> {
  const runs: StatusRun[] = [];
  for (const run of await selectRunning(log)) {
    const ofScript = rises.get(run.script) ?? noRises;
    const { durationMs: usualDurationMs } = await readUsual(store, run.script, nowMs, ofScript);
    runs.push({ ...run, usualDurationMs });
  }
  return runs;
}

interface QueueStatusQuery {
  /** The names of the handlers here. */
  readonly handlers: readonly string[];
  /** Programs besides the workers that wait for jobs. */
  readonly waiting: readonly Waiter[];
  readonly nowMs: number;
}

export async function readQueueStatus(
  db: Kysely<ActivityLog>,
  { handlers, waiting, nowMs }: QueueStatusQuery,
): Promise<QueueStatus> {
  const names = await countWaitingNames(db, nowMs);
  const workers = (await selectWorkersAtWork(db)).filter(({ kind }) => kind === 'queue');
  const { running, busy } = await readClaims(db);
  return {
    counts: { running, ...(await selectCounts(db, names)) },
    withoutHandler: findUnhandled(names, handlers).toSorted(byJobs),
    workers: workers.length,
    idleWorkers: workers.filter(({ id }) => !busy.has(id)).length,
    waiting,
  };
}

interface Claims {
  /** Number of jobs of the queue. */
  readonly running: number;
  /** Numbers of the workers that have one, or a script. */
  readonly busy: ReadonlySet<number>;
}

/** By the tokens of claims; that of a holder that is no worker has no dot. */
async function readClaims(db: Kysely<ActivityLog>): Promise<Claims> {
  const rows = await db
    .selectFrom('jobs')
    .select(['claim_token', 'tier', 'state'])
    .where('claim_token', 'is not', null)
    .execute();
  return {
    running: rows.filter(({ tier, state }) => tier === null && (state === 'claimed' || state === 'running')).length,
    busy: new Set(rows.flatMap(({ claim_token }) => /^(\d+)\./.exec(claim_token as string)?.[1] ?? []).map(Number)),
  };
}

/** One for each handler that is missing: with parameters each job may have a name of its own. */
function findUnhandled(waiting: readonly WaitingCount[], handlers: readonly string[]): UnhandledName[] {
  const known = new Set(handlers);
  const unhandled = waiting.filter(({ name }) => !known.has(name) && !known.has(withoutParameters(name)));
  const byHandler = Map.groupBy(unhandled, ({ name }) => withoutParameters(name));
  return [...byHandler].map(([name, counts]) => ({
    name,
    jobs: counts.reduce((sum, { ready, delayed }) => sum + ready + delayed, 0),
    nearest: nearestPath(name, handlers),
  }));
}

function byJobs(one: UnhandledName, other: UnhandledName): number {
  return other.jobs - one.jobs || (one.name < other.name ? -1 : 1);
}

interface WaitingCount {
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
}

/**
 * How many jobs of each name wait. Written with literals, as small indexes hold what is ready, what is not yet, and
 * what is blocked by its group.
 */
export async function countWaitingNames(db: Kysely<ActivityLog>, nowMs: number): Promise<WaitingCount[]> {
  const waiting = db.selectFrom('jobs').groupBy('name').select('name');
  const isDue = sql<boolean>`run_at <= ${nowMs}`;
  const counts = new Map<string, WaitingCount>();
  const add = (name: string, ready: number, delayed: number): void => {
    const known = counts.get(name);
    counts.set(name, { name, ready: (known?.ready ?? 0) + ready, delayed: (known?.delayed ?? 0) + delayed });
  };
  for (const mark of [1, 2]) {
    const due = waiting.select(({ fn }) => fn.countAll<number>().as('jobs')).where('ready', '=', sql.lit(mark));
    for (const { name, jobs } of await due.execute()) add(name, jobs, 0);
  }
  const others = await waiting
    .select(({ fn }) => fn.countAll<number>().as('jobs'))
    .select(sql<number>`sum(case when ${isDue} then 1 else 0 end)`.as('due'))
    .where('ready', '=', sql.lit(0))
    .execute();
  // A job whose time has come stays among the others until a worker looks for work.
  for (const { name, jobs, due } of others) add(name, due, jobs - due);
  return [...counts.values()];
}

async function selectCounts(db: Kysely<ActivityLog>, waiting: readonly WaitingCount[]) {
  const sum = (which: 'ready' | 'delayed'): number => waiting.reduce((total, each) => total + each[which], 0);
  const { rows } = await otherCounts.execute(db);
  return { ready: sum('ready'), delayed: sum('delayed'), ...(rows[0] ?? { paused: 0, failed: 0 }) };
}

/** Each by an index of its own; only families know the state `paused`, and their children have one. */
const otherCounts = sql<Pick<QueueCounts, 'paused' | 'failed'>>`select
  (select count(*) from jobs where parent_id is not null and state = 'paused') +
  (select count(*) from jobs where parent_id is null and state = 'paused' and id in
    (select parent_id from jobs where parent_id is not null
      and state in ('queued', 'claimed', 'running', 'retrying', 'paused'))) as paused,
  (select count(*) from jobs
    where state = 'failed' and finished_at is not null and tier is null) as failed`;

/** How many runs were recorded without the log, and wait to be replayed into it. */
export async function countSpooledRuns(states: readonly StateFolder[]): Promise<number> {
  const files = states.filter(hasSpool).flatMap(listSpoolFiles);
  if (files.length === 0) return 0;
  const { readSpool } = await import('../../store/spool/read.ts');
  const runs = new Set<string>();
  for (const { path } of files) {
    try {
      for (const line of readSpool(path)) {
        if ('spoolId' in line && line.type !== 'worker') runs.add(line.spoolId);
      }
    } catch {
      // Taken in meanwhile, or somebody else's: nobody takes that in.
    }
  }
  return runs.size;
}

export function describeSpooled(runs: number): string {
  const wait = runs === 1 ? 'One run waits' : `${runs} runs wait`;
  return (
    `${wait} in the spool, because the log could not be written; the next pass takes ` +
    `${runs === 1 ? 'it' : 'them'} in.`
  );
}
