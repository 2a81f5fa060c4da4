import type { Glance, GlanceFrom, TierGlance } from '../../contract.ts';
import type { Statements } from '../session.ts';

/** Two statements, each of a few steps into an index: all that passes ask that find nothing wrong. */
export function glance(db: Statements, from: GlanceFrom, tiers: readonly string[]): Glance {
  return { isSuspicious: isSuspicious(db, from), tiers: tiers.length === 0 ? [] : glanceAtTiers(db, tiers) };
}

function isSuspicious(db: Statements, from: GlanceFrom): boolean {
  const { at, runningSince, failedSince, fewestFailed, crashedSince, fewestCrashes, undeliveredSince } = from;
  const row = db.first(
    `select 1 where exists (select 1 from incidents where recovered_at is null and code <> 'script-failing')
       or exists (select 1 from runs where outcome = 'running' and started_at <= ?)
       or exists (select 1 from jobs where ready = 1)
       or exists (select 1 from jobs where ready = 0 and run_at <= ?)
       or exists (select 1 from jobs where state = 'failed' and finished_at >= ?
         and finished_at is not null and tier is null limit 1 offset ?)
       or exists (select 1 from workers where state = 'crashed' and finished_at >= ? limit 1 offset ?)
       or exists (select 1 from deliveries where attempts > 0 and created_at <= ?)`,
    [runningSince, at, failedSince, fewestFailed - 1, crashedSince, fewestCrashes - 1, undeliveredSince],
  );
  return row !== undefined;
}

interface Row extends Omit<TierGlance, 'isDue' | 'isHeld'> {
  readonly isDue: number | null;
  readonly isHeld: number | null;
}

/** Names of scripts begin with that of their tier and a `/`, behind which `0` comes. */
function glanceAtTiers(db: Statements, tiers: readonly string[]): TierGlance[] {
  const rows = db.all<Row>(
    `select value as tier, call.started_at as calledAt, call.triggered_by = 'due' as isDue,
       (select skip_code is 'held' from workers where kind = 'tier' and tier = value order by id desc limit 1) as isHeld,
       (select min(coalesce(started_at, created_at)) from jobs indexed by jobs_of_scripts where tier is not null
         and name > value || '/' and name < value || '0' and state not in ('running', 'claimed')) as idleSince
     from json_each(?) left join workers as call on call.id = (select id from workers
       where kind = 'tier' and tier = value and triggered_by <> 'manual' order by id desc limit 1)`,
    [JSON.stringify(tiers)],
  );
  return rows.map((row) => ({ ...row, isDue: row.isDue === 1, isHeld: row.isHeld === null ? null : row.isHeld === 1 }));
}
