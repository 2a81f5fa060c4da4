import type { Glance, GlanceFrom, TierGlance } from '../../../contract/metrics.ts';
import { suspicionOf, type TierGlanceRow, toTierGlance } from '../../../shared/checks.ts';
import type { ServerStatements } from '../../session.ts';

/** Two statements, each of a few steps into an index: all that passes ask that find nothing wrong. */
export async function serverGlance(db: ServerStatements, from: GlanceFrom, tiers: readonly string[]): Promise<Glance> {
  const tierGlances = tiers.length === 0 ? [] : await glanceAtTiers(db, tiers);
  const { text, values } = suspicionOf(from);
  return { isSuspicious: (await db.first(text, values)) !== undefined, tiers: tierGlances };
}

/** Names of scripts begin with that of their tier and a `/`, behind which `0` comes. */
async function glanceAtTiers(db: ServerStatements, tiers: readonly string[]): Promise<TierGlance[]> {
  const { name: engine } = db.dialect;
  // A list of its own, so that each tier is a few steps into an index: a group of all calls would read them all.
  const text = engine === 'postgres' ? 'cast(? as text) collate "C"' : '?';
  const asked = tiers.map((_, place) => `select ${place} as place, ${text} as tier`).join(' union all ');
  const inTier =
    engine === 'postgres'
      ? `tier is not null and name > asked.tier || '/' and name < asked.tier || '0'`
      : `script_key > asked.tier || '/' and script_key < asked.tier || '0'`;
  const rows = await db.all<TierGlanceRow>(
    `select asked.tier, latest.started_at as "calledAt", latest.triggered_by = 'due' as "isDue",
       (select coalesce(skip_code, '') = 'held' from workers where kind = 'tier' and workers.tier = asked.tier
         order by id desc limit 1) as "isHeld",
       (select min(coalesce(started_at, created_at)) from jobs
         where ${inTier} and state not in ('running', 'claimed')) as "idleSince"
     from (${asked}) as asked left join workers as latest on latest.id = (select id from workers
       where kind = 'tier' and workers.tier = asked.tier and triggered_by <> 'manual' order by id desc limit 1)
     order by asked.place`,
    tiers,
  );
  return rows.map(toTierGlance);
}
