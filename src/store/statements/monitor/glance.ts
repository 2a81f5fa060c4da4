import type { Dialect } from '../../shared/sql/dialect.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import { OF_RUNS } from '../../words.ts';
import type { TierCallRow } from './checks.ts';

/** The thresholds from which a glance finds something suspicious. UTC epoch milliseconds. */
export interface GlanceFrom {
  readonly at: number;
  /** Runs in progress that have begun by then. */
  readonly runningSince: number;
  readonly failedSince: number;
  readonly fewestFailed: number;
  readonly crashedSince: number;
  readonly fewestCrashes: number;
  /** Messages that were tried, and made by then. */
  readonly undeliveredSince: number;
}

/** The result of a glance at the log. */
export interface Glance {
  /** Something may be wrong with runs, the queue, workers or messages, or is known to be with what checks look at. */
  readonly isSuspicious: boolean;
  readonly tiers: readonly TierGlance[];
}

export interface TierGlance extends Pick<TierCallRow, 'tier' | 'calledAt' | 'isDue'> {
  /** Whether its last call found the lock held; null: it was never called. */
  readonly isHeld: boolean | null;
  /** When the oldest of its scripts that do not run now was last tried or queued; null: no such script. */
  readonly idleSince: number | null;
}

/** Two statements, each of a few steps into an index: all that passes ask that find nothing wrong. */
export async function glanceAt(db: Statements, from: GlanceFrom, tiers: readonly string[]): Promise<Glance> {
  const tierGlances = tiers.length === 0 ? [] : await glanceAtTiers(db, tiers);
  const { text, values } = suspicionOf(db.dialect, from);
  return { isSuspicious: (await db.first(text, values)) !== undefined, tiers: tierGlances };
}

/** A row, if there is anything that a check might find: each a few steps into an index, as all passes ask for it. */
function suspicionOf({ byIndex }: Dialect, from: GlanceFrom) {
  const { at, runningSince, failedSince, fewestFailed, crashedSince, fewestCrashes, undeliveredSince } = from;
  return {
    text: `select 1 as one where exists (select 1 from incidents where recovered_at is null and code not in (${OF_RUNS}))
       or exists (select 1 from ${byIndex('runs', { sqlite: 'runs_running' })}
         where outcome = 'running' and started_at <= ?)
       or exists (select 1 from jobs where ready = 1)
       or exists (select 1 from jobs where ready = 2)
       or exists (select 1 from jobs where ready = 0 and run_at <= ?)
       or exists (select 1 from jobs where state = 'failed' and finished_at >= ?
         and finished_at is not null and tier is null limit 1 offset ?)
       or exists (select 1 from workers where state = 'crashed' and finished_at >= ? limit 1 offset ?)
       or exists (select 1 from deliveries where attempts > 0 and created_at <= ?)`,
    values: [runningSince, at, failedSince, fewestFailed - 1, crashedSince, fewestCrashes - 1, undeliveredSince],
  };
}

/** A tier, as statements find it. */
interface TierGlanceRow extends Omit<TierGlance, 'isDue' | 'isHeld'> {
  readonly isDue: number | null;
  readonly isHeld: number | null;
}

function toTierGlance({ isDue, isHeld, ...row }: TierGlanceRow): TierGlance {
  return { ...row, isDue: isDue === 1, isHeld: isHeld === null ? null : isHeld === 1 };
}

/** Names of scripts begin with that of their tier and a `/`, behind which `0` comes. */
async function glanceAtTiers(db: Statements, tiers: readonly string[]): Promise<TierGlance[]> {
  const { name: engine, byIndex } = db.dialect;
  const { text, values } = engine === 'sqlite' ? listed(tiers) : spelledOut(tiers, engine);
  const inTier =
    engine === 'mysql'
      ? `script_key > asked.tier || '/' and script_key < asked.tier || '0'`
      : `tier is not null and name > asked.tier || '/' and name < asked.tier || '0'`;
  const rows = await db.all<TierGlanceRow>(
    `select asked.tier, latest.started_at as "calledAt", latest.triggered_by = 'due' as "isDue",
       (select coalesce(skip_code, '') = 'held' from workers where kind = 'tier' and workers.tier = asked.tier
         order by id desc limit 1) as "isHeld",
       (select min(coalesce(started_at, created_at)) from ${byIndex('jobs', { sqlite: 'jobs_of_scripts' })}
         where ${inTier} and state not in ('running', 'claimed')) as "idleSince"
     from (${text}) as asked left join workers as latest on latest.id = (select id from workers
       where kind = 'tier' and workers.tier = asked.tier and triggered_by <> 'manual' order by id desc limit 1)
     order by asked.place`,
    values,
  );
  return rows.map(toTierGlance);
}

interface Asked {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** The tiers as one value, whose statement is prepared once. */
function listed(tiers: readonly string[]): Asked {
  return { text: 'select key as place, value as tier from json_each(?)', values: [tiers] };
}

/** A list of its own, so that each tier is a few steps into an index: a group of all calls would read them all. */
function spelledOut(tiers: readonly string[], engine: 'postgres' | 'mysql'): Asked {
  const text = engine === 'postgres' ? 'cast(? as text) collate "C"' : '?';
  return {
    text: tiers.map((_, place) => `select ${place} as place, ${text} as tier`).join(' union all '),
    values: tiers,
  };
}
