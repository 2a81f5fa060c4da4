import { type Kysely, sql } from 'kysely';
import type { ActivityLog } from '../store/schema.ts';

/** Every script that the log knows. */
export function selectScriptNames(db: Kysely<ActivityLog>): Promise<string[]> {
  return selectDistinct(db, 'runs', 'script');
}

/** Every tier that the log knows. */
export function selectTierNames(db: Kysely<ActivityLog>): Promise<string[]> {
  return selectDistinct(db, 'workers', 'tier');
}

/**
 * Each step jumps to the next name in the index, where a plain `distinct` would read all of it: with
 * a million runs 1 ms instead of 100.
 */
async function selectDistinct(
  db: Kysely<ActivityLog>,
  tableName: 'runs' | 'workers',
  columnName: 'script' | 'tier',
): Promise<string[]> {
  const [table, column] = [sql.table(tableName), sql.ref(columnName)];
  const { rows } = await sql<{ name: string }>`
    with recursive names (name) as (
      select min(${column}) from ${table}
      union all
      select (select min(${column}) from ${table} where ${column} > names.name)
      from names where names.name is not null
    )
    select name from names where name is not null`.execute(db);
  return rows.map(({ name }) => name);
}
