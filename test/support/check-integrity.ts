import { sql } from 'kysely';
import { isCorruption } from '../../src/store/failures.ts';
import type { Database, Store } from '../../src/store/store.ts';

const MOST_PROBLEMS = 20;

/** Looks through the whole log, which takes seconds for a large one. What is wrong with it; empty: nothing. */
export async function checkIntegrity({ db }: Pick<Store, 'db'>): Promise<readonly string[]> {
  try {
    return [...(await findDamage(db)), ...(await findLostReferences(db))];
  } catch (error) {
    if (isCorruption(error)) return [(error as Error).message];
    throw error;
  }
}

async function findDamage(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ integrity_check: string }>`
    pragma integrity_check(${sql.lit(MOST_PROBLEMS)})`.execute(db);
  return rows.map((row) => row.integrity_check).filter((answer) => answer !== 'ok');
}

async function findLostReferences(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ table: string; parent: string; count: number }>`
    select "table", parent, count(*) as count from pragma_foreign_key_check
    group by "table", parent`.execute(db);
  return rows.map(
    ({ table, parent, count }) =>
      `${count} rows of ${table} name a row of ${parent} that is not there`,
  );
}
