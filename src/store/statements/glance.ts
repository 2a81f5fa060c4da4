import type { Glance, GlanceFrom, TierGlance } from '../contract/metrics.ts';
import { suspicionOf, type TierGlanceRow, toTierGlance } from '../shared/checks.ts';
import type { Statements } from '../shared/sql/statements.ts';

/** Two statements, each of a few steps into an index: all that passes ask that find nothing wrong. */
export async function glanceAt(db: Statements, from: GlanceFrom, tiers: readonly string[]): Promise<Glance> {
  const tierGlances = tiers.length === 0 ? [] : await glanceAtTiers(db, tiers);
  const { text, values } = suspicionOf(from);
  return { isSuspicious: (await db.first(text, values)) !== undefined, tiers: tierGlances };
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
