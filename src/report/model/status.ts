import { readdirSync } from 'node:fs';
import { type Kysely, sql } from 'kysely';
import { nearestPath } from '../../base/suggest.ts';
import { compareBytes } from '../../base/values.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { selectPauses } from '../../queue/pauses.ts';
import { readUsualDuration } from '../../queue/read/history.ts';
import { isWaitingJob } from '../../queue/read/states.ts';
import { withoutParameters } from '../../settings/readers.ts';
import { hasSpool } from '../../spool/files.ts';
import type { ActivityLog } from '../../store/schema.ts';
import { selectRunning } from './run.ts';
import {
  findHolders,
  type QueueCounts,
  type QueueStatus,
  readTierState,
  type Status,
  type StatusRun,
  selectWaiting,
  type TierState,
  type UnhandledName,
} from './tier.ts';

interface StatusQuery {
  readonly db: Kysely<ActivityLog>;
  /** Where the runner writes, and where it does if it cannot there. */
  readonly states: readonly StateFolder[];
  /** The tiers of `jobs/`. */
  readonly tiers: readonly string[];
  /** The names of the handlers in `jobs/queue/`. */
  readonly handlers: readonly string[];
  readonly nowMs: number;
  /** There is a log, and it could not be read. */
  readonly isLogUnread: boolean;
}

/** Reads everything that `runner status` shows. */
export async function readStatus(query: StatusQuery): Promise<Status> {
  const { db, states, tiers, handlers, nowMs, isLogUnread } = query;
  const holders = await findHolders(db, states, tiers);
  const pauses = await selectPauses(db, nowMs);
  const facts = { holders, pauses, nowMs };
  const tierStates: TierState[] = [];
  for (const tier of tiers) tierStates.push(await readTierState(db, tier, facts));
  return {
    atMs: nowMs,
    running: await readRunning(db),
    holders,
    waiting: await selectWaiting(db, holders),
    pauses,
    queue: await readQueueStatus(db, { handlers, nowMs }),
    tiers: tierStates.toSorted(byPeriod),
    isLogUnread,
    hasSpool: states.some(hasSpool),
    setAside: states.flatMap(({ path }) => findSetAside(path)),
  };
}

function byPeriod(one: TierState, other: TierState): number {
  return (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
}

async function readRunning(db: Kysely<ActivityLog>): Promise<StatusRun[]> {
  const runs: StatusRun[] = [];
  for (const run of await selectRunning(db)) {
    runs.push({ ...run, usualDurationMs: await readUsualDuration(db, run.script) });
  }
  return runs;
}

/** `activity.db.broken-<time>`, without what belongs to it. */
function findSetAside(folder: string): string[] {
  try {
    return readdirSync(folder).filter(isSetAside).toSorted(compareBytes);
  } catch {
    // Nothing has ever run here.
    return [];
  }
}

function isSetAside(name: string): boolean {
  return name.startsWith('activity.db.broken-') && !/-(?:wal|shm|journal)$/.test(name);
}

type Log = Kysely<ActivityLog>;

interface QueueStatusQuery {
  /** The names of the handlers here. */
  readonly handlers: readonly string[];
  readonly nowMs: number;
}

export async function readQueueStatus(
  db: Log,
  { handlers, nowMs }: QueueStatusQuery,
): Promise<QueueStatus> {
  const names = await countWaitingNames(db, nowMs);
  const known = new Set(handlers);
  return {
    counts: await selectCounts(db, names),
    withoutHandler: names
      .filter(({ name }) => !known.has(name) && !known.has(withoutParameters(name)))
      .map(({ name, ready, delayed }) => ({
        name,
        jobs: ready + delayed,
        nearest: nearestPath(withoutParameters(name), handlers),
      }))
      .toSorted(byJobs),
    workers: await countWorkers(db),
  };
}

function byJobs(one: UnhandledName, other: UnhandledName): number {
  return other.jobs - one.jobs || (one.name < other.name ? -1 : 1);
}

interface WaitingCount {
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
}

/** By an index of what waits alone: a million of them take 0.2 s. */
async function countWaitingNames(db: Log, nowMs: number): Promise<WaitingCount[]> {
  return await db
    .selectFrom('jobs')
    .select([
      'name',
      sql<number>`sum(run_at <= ${nowMs})`.as('ready'),
      sql<number>`sum(run_at > ${nowMs})`.as('delayed'),
    ])
    .where(isWaitingJob)
    .groupBy('name')
    .execute();
}

async function selectCounts(db: Log, waiting: readonly WaitingCount[]): Promise<QueueCounts> {
  const sum = (which: 'ready' | 'delayed'): number =>
    waiting.reduce((total, each) => total + each[which], 0);
  const { rows } = await otherCounts.execute(db);
  const { running, paused, failed } = rows[0] ?? { running: 0, paused: 0, failed: 0 };
  return { ready: sum('ready'), delayed: sum('delayed'), running, paused, failed };
}

/** Each by an index of its own; only families know the state `paused`, and their children have one. */
const otherCounts = sql<Pick<QueueCounts, 'running' | 'paused' | 'failed'>>`select
  (select count(*) from jobs
    where leased_until is not null and tier is null and state = 'running') as running,
  (select count(*) from jobs where parent_id is not null and state = 'paused') +
  (select count(*) from jobs where state = 'paused' and id in
    (select parent_id from jobs where parent_id is not null
      and state in ('queued', 'retrying', 'running', 'paused'))) as paused,
  (select count(*) from jobs
    where state = 'failed' and finished_at is not null and tier is null) as failed`;

async function countWorkers(db: Log): Promise<number> {
  const workers = await db
    .selectFrom('workers')
    .select('id')
    .where('kind', '=', 'queue')
    .where('state', '=', 'running')
    .execute();
  return workers.length;
}
