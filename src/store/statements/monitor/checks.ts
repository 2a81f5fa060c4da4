import { DAY_MS, HOUR_MS } from '../../../system/base/values.ts';
import type { ProcessIdentity } from '../../../system/process/identity.ts';
import { type Dialect, withTiers } from '../../shared/sql/dialect.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import type { JobState, Outcome, Severity } from '../../words.ts';
import { hasClaim } from '../job-rows.ts';
import { scriptRows } from '../script-jobs.ts';

export interface TierCallRow {
  readonly tier: string;
  /** Its last call by schedule, skipped ones too; null: it was only called by hand. */
  readonly calledAt: number | null;
  /** By the one line for all tiers. */
  readonly isDue: boolean;
  /** In how many periods in a row calls have found the lock held by an earlier pass, and since when. */
  readonly held: number;
  readonly heldSince: number | null;
}

export interface ScriptStandRow {
  readonly name: string;
  readonly tier: string;
  readonly state: JobState;
  /** When it was queued, or is tried again. */
  readonly runAt: number;
  /** When its last try began. */
  readonly startedAt: number | null;
  /** When it was first queued. */
  readonly createdAt: number;
  readonly reason: string | null;
  /** 0: it waits for other scripts. */
  readonly linksMet: number | null;
}

/** A run that goes on, with the process of its worker. */
export interface RunningRow extends ProcessIdentity {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

export interface DueJobsRow {
  readonly name: string;
  readonly jobs: number;
  /** Since when the first of them is due. */
  readonly oldest: number;
}

export interface CrashedWorkerRow {
  /** Null: it processed jobs of the queue. */
  readonly tier: string | null;
  readonly finishedAt: number;
  readonly reason: string | null;
}

type Listed = 'running' | 'due' | 'failed' | 'crashed' | 'undelivered';

/** Apart from the other areas, as no call needs them but the few that look after the others. */
export function checksOf(db: Statements) {
  const { byIndex, join } = db.dialect;
  return {
    /** Which of the lists below have rows, and which of `deliveries`: nearly always few, so that one look is enough. */
    present: async (at: number) => {
      const row = await db.first<Record<Listed, number>>(
        `select
           exists (select 1 from ${byIndex('runs', { sqlite: 'runs_running' })} where outcome = 'running') as "running",
           exists (select 1 from jobs where ready = 1) or exists (select 1 from jobs where ready = 2)
             or exists (select 1 from jobs where ready = 0 and run_at <= ?) as "due",
           exists (select 1 from jobs where state = 'failed' and finished_at >= ? and finished_at is not null
             and tier is null) as "failed",
           exists (select 1 from workers where state = 'crashed' and finished_at >= ?) as "crashed",
           exists (select 1 from deliveries where attempts > 0) as "undelivered"`,
        [at, at - HOUR_MS, at - DAY_MS],
      );
      const has = (list: Listed): boolean => row?.[list] === 1;
      return {
        ...{ running: has('running'), due: has('due'), failed: has('failed') },
        ...{ crashed: has('crashed'), undelivered: has('undelivered') },
      };
    },
    /** How each tier that was ever called stands. */
    tiers: () => tiers(db),
    /** When the oldest call that is known was made by schedule; null: none was. */
    firstCall: () =>
      findInstant(
        db,
        `select started_at as at from workers where kind = 'tier' and triggered_by <> 'manual' order by id limit 1`,
      ),
    /** The one row of each script. */
    scripts: () =>
      db.all<ScriptStandRow>(
        `select name, tier, state, run_at as "runAt", started_at as "startedAt", created_at as "createdAt", reason,
           links_met as "linksMet"
         from ${scriptRows(db)} order by name, id`,
      ),
    /** Runs that go on, the oldest first, with their workers; not those of who is no worker. */
    running: () =>
      db.all<RunningRow>(
        `select runs.id, scripts.name as script, runs.started_at as "startedAt", runs.timeout_ms as "timeoutMs",
           workers.pid, workers.pid_start_ticks as "startTicks", hosts.host, hosts.boot_id as "bootId"
         from ${byIndex('runs', { sqlite: 'runs_running' })} ${join} workers on workers.id = runs.worker_id
           ${join} hosts on hosts.id = workers.host_id ${join} scripts on scripts.id = runs.script_id
         where runs.outcome = 'running' order by runs.started_at, runs.id`,
      ),
    /** Jobs of the queue that are due, by name; the most first. */
    due: (at: number) => due(db, at),
    /** How many jobs of the queue have ended like this since then, counted up to `limit`. */
    ended: async (state: 'finished' | 'failed', since: number, limit: number) =>
      (
        await db.first<{ jobs: number }>(
          `select count(*) as jobs from (select 1 as one from jobs where state = ? and finished_at >= ?
             and finished_at is not null and tier is null limit ?) as found`,
          [state, since, limit],
        )
      )?.jobs ?? 0,
    /** When a worker last began to process jobs of the queue; null: none ever has. */
    lastQueueWork: () =>
      findInstant(db, 'select started_at as at from workers where tier is null order by started_at desc limit 1'),
    /** Workers that are believed to process jobs of the queue. */
    queueWorkers: () =>
      db.all<ProcessIdentity>(
        `select workers.pid, workers.pid_start_ticks as "startTicks", hosts.host, hosts.boot_id as "bootId"
         from workers join hosts on hosts.id = workers.host_id where workers.state = 'running' and workers.tier is null`,
      ),
    /** Whether somebody who is no worker of the runner has a job of the queue. */
    isClaimedOutside: () =>
      isThere(
        db,
        `${byIndex('jobs', { sqlite: 'jobs_claimed' })} where ${hasClaim} and claim_token not like '%.%' and tier is null`,
      ),
    /** Workers that have died since then, the newest first. */
    crashed: (since: number) =>
      db.all<CrashedWorkerRow>(
        `select tier, finished_at as "finishedAt", reason from workers
         where state = 'crashed' and finished_at >= ? order by finished_at desc limit 1000`,
        [since],
      ),
  };
}

async function findInstant(db: Statements, text: string): Promise<number | null> {
  return (await db.first<{ at: number }>(text))?.at ?? null;
}

async function isThere(db: Statements, rows: string): Promise<boolean> {
  return (await db.first(`select 1 as one from ${rows} limit 1`)) !== undefined;
}

interface CalledTier {
  readonly tier: string;
  readonly calledAt: number | null;
  readonly isDue: number | null;
  readonly isHeld: number | null;
}

/** One step into the index for each tier. By number, not by time: the clock may have been set back. */
async function tiers(db: Statements): Promise<TierCallRow[]> {
  const newest = `select id from workers where kind = 'tier' and workers.tier = tiers.tier`;
  const rows = await db.all<CalledTier>(
    `${withTiers(db.dialect)} select tiers.tier, latest.started_at as "calledAt", latest.triggered_by = 'due' as "isDue",
       (select coalesce(skip_code, '') = 'held' from workers where id = (${newest} order by id desc limit 1)) as "isHeld"
     from tiers left join workers as latest
       on latest.id = (${newest} and triggered_by <> 'manual' order by id desc limit 1)
     where tiers.tier is not null`,
  );
  const found: TierCallRow[] = [];
  for (const { tier, calledAt, isDue, isHeld } of rows) {
    const held = isHeld === 1 ? await countHeld(db, tier) : { held: 0, heldSince: null };
    found.push({ tier, calledAt, isDue: isDue === 1, ...held });
  }
  return found;
}

/**
 * Counts the calls that found the lock held, since the last pass that had the lock or the last call that was skipped
 * for another reason. One call counts for each period: a person who starts eight passes at once has not waited for
 * eight.
 */
async function countHeld(db: Statements, tier: string): Promise<Pick<TierCallRow, 'held' | 'heldSince'>> {
  const ofTier = `from workers where kind = 'tier' and tier = ?`;
  const row = await db.first<Pick<TierCallRow, 'held' | 'heldSince'>>(
    `select count(distinct coalesce(scheduled_for, -id)) as held, min(started_at) as "heldSince" ${ofTier}
       and id > coalesce((select id ${ofTier} and (skip_code is null or skip_code <> 'held') order by id desc limit 1), 0)`,
    [tier, tier],
  );
  return row ?? { held: 0, heldSince: null };
}

/** More need not be counted: that many are far too many. */
export const MOST_DUE = 100_000;

/**
 * Counts ready, blocked and waiting jobs: a job whose time has come stays among those that are not ready until a worker
 * looks for work.
 */
async function due(db: Statements, at: number): Promise<DueJobsRow[]> {
  return await db.all<DueJobsRow>(
    `select name, count(*) as jobs, min(run_at) as oldest from (
       select name, run_at from (select name, run_at from jobs where ready = 1 limit ?) as ready
       union all
       select name, run_at from (select name, run_at from jobs where ready = 2 limit ?) as blocked
       union all
       select name, run_at from (select name, run_at from jobs where ready = 0 and run_at <= ? limit ?) as waiting)
       as due
     group by name order by jobs desc, name`,
    [MOST_DUE, MOST_DUE, at, MOST_DUE],
  );
}

/** How a site is now; null is unknown. */
export interface SiteState {
  readonly scripts: readonly {
    readonly script: string;
    readonly lastAt: number | null;
    readonly lastOutcome: Outcome | null;
    readonly lastSuspect: 0 | 1;
    readonly lastSuccessAt: number | null;
  }[];
  readonly tiers: readonly { readonly tier: string; readonly lastPassAt: number | null }[];
  readonly queue: {
    readonly jobs: Readonly<Record<'waiting' | 'delayed' | 'running' | 'failed', number>>;
    /** How long the first of those that wait has been due; null: none waits. */
    readonly ageMs: number | null;
  };
  readonly running: number;
  readonly workers: number;
  /** How many scripts are queued and wait for others, or for their time of day. */
  readonly linked: number;
  readonly incidents: Readonly<Record<Severity, number>>;
  readonly deliveries: { readonly waiting: number; readonly givenUp: number };
  readonly logBytes: number;
}

const figures = {
  ready: 'jobs where ready = 1',
  blocked: 'jobs where ready = 2',
  due: 'jobs where ready = 0 and run_at <= ?',
  delayed: 'jobs where ready = 0 and run_at > ?',
  claimed: `jobs where ${hasClaim} and tier is null`,
  failed: `jobs where state = 'failed' and finished_at is not null and tier is null`,
  running: `runs where outcome = 'running'`,
  workers: `workers where state = 'running'`,
  warning: `incidents where recovered_at is null and severity = 'warning'`,
  critical: `incidents where recovered_at is null and severity = 'critical'`,
  waiting: 'deliveries where due_at is not null',
  givenUp: 'deliveries where due_at is null',
} as const;

const countText = (name: string, rows: string): string => `(select count(*) from ${rows}) as "${name}"`;

const figuresText = Object.entries(figures).map(([name, rows]) => countText(name, rows));

const linkedText = (db: Statements): string =>
  countText('linked', `${scriptRows(db)} and state = 'queued' and links_met = 0`);

const oldestText = `select min(run_at) as since from (
  select min(run_at) as run_at from jobs where ready = 1 and run_at <= ?
  union all select min(run_at) from jobs where ready = 2 and run_at <= ?
  union all select min(run_at) from jobs where ready = 0 and run_at <= ?) as waiting`;

/** Each figure by an index, however much the log holds. */
export async function readSiteState(db: Statements, at: number): Promise<SiteState> {
  const values = Array(figuresText.join('').split('?').length - 1).fill(at);
  const counted = (await db.first<Record<keyof typeof figures | 'linked', number>>(
    `select ${[...figuresText, linkedText(db)].join(', ')}`,
    values,
  )) as Record<keyof typeof figures | 'linked', number>;
  const since = (await db.first<{ since: number | null }>(oldestText, [at, at, at]))?.since ?? null;
  const { ready, blocked, due, delayed, claimed, failed, running, workers, linked } = counted;
  const { warning, critical, waiting, givenUp } = counted;
  return {
    scripts: await db.all(lastRunsText(db.dialect.join)),
    tiers: await db.all(`${withTiers(db.dialect)} ${lastPassesText}`),
    queue: {
      jobs: { waiting: ready + blocked + due, delayed, running: claimed, failed },
      ageMs: since === null ? null : at - since,
    },
    running,
    workers,
    linked,
    incidents: { warning, critical },
    deliveries: { waiting, givenUp },
    logBytes: (await db.first<{ bytes: number }>(bytesTexts[db.dialect.name]))?.bytes ?? 0,
  };
}

/** The bytes of all tables with their indexes. */
const bytesTexts: Readonly<Record<Dialect['name'], string>> = {
  sqlite: 'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
  postgres: `select sum(pg_total_relation_size(oid)) as bytes from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
  mysql: `select sum(data_length + index_length) as bytes from information_schema.tables
    where table_schema = database()`,
};

const lastRunsText = (join: Dialect['join']): string => `
  select scripts.name as script, newest.started_at as "lastAt", newest.outcome as "lastOutcome",
    newest.suspect as "lastSuspect",
    (select started_at from runs where script_id = scripts.id and outcome = 'succeeded'
     order by started_at desc limit 1) as "lastSuccessAt"
  from scripts ${join} runs as newest on newest.id =
    (select id from runs where script_id = scripts.id order by started_at desc, id desc limit 1)
  order by scripts.name`;

const lastPassesText = `select tier, (select started_at from workers
    where workers.tier = tiers.tier and kind = 'tier' and state <> 'skipped'
    order by started_at desc limit 1) as "lastPassAt"
  from tiers where tier is not null`;
