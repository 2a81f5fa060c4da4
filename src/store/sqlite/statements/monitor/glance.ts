import type { Glance, GlanceFrom, TierGlance } from '../../../contract/metrics.ts';
import { suspicionOf, type TierGlanceRow, toTierGlance } from '../../../shared/checks.ts';
import type { SqliteStatements } from '../../session.ts';

/** Two statements, each of a few steps into an index: all that passes ask that find nothing wrong. */
export function sqliteGlance(db: SqliteStatements, from: GlanceFrom, tiers: readonly string[]): Glance {
  const { text, values } = suspicionOf(from);
  return {
    isSuspicious: db.first(text, values) !== undefined,
    tiers: tiers.length === 0 ? [] : glanceAtTiers(db, tiers),
  };
}

/** Names of scripts begin with that of their tier and a `/`, behind which `0` comes. */
function glanceAtTiers(db: SqliteStatements, tiers: readonly string[]): TierGlance[] {
  const rows = db.all<TierGlanceRow>(
    `select value as tier, call.started_at as calledAt, call.triggered_by = 'due' as isDue,
       (select skip_code is 'held' from workers where kind = 'tier' and tier = value order by id desc limit 1) as isHeld,
       (select min(coalesce(started_at, created_at)) from jobs indexed by jobs_of_scripts where tier is not null
         and name > value || '/' and name < value || '0' and state not in ('running', 'claimed')) as idleSince
     from json_each(?) left join workers as call on call.id = (select id from workers
       where kind = 'tier' and tier = value and triggered_by <> 'manual' order by id desc limit 1)`,
    [JSON.stringify(tiers)],
  );
  return rows.map(toTierGlance);
}
