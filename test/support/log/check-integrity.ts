import { isCorruption } from '../../../src/store/failures.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';

const MOST_PROBLEMS = 20;

/** Looks through the whole log, which takes seconds for a large one. What is wrong with it; empty: nothing. */
export async function checkIntegrity({ connection }: Pick<SqliteStore, 'connection'>): Promise<readonly string[]> {
  const all = <Row>(text: string): Row[] => connection.prepare(text).all([]) as Row[];
  try {
    const damage = all<{ integrity_check: string }>(`pragma integrity_check(${MOST_PROBLEMS})`)
      .map((row) => row.integrity_check)
      .filter((answer) => answer !== 'ok');
    const lost = all<{ table: string; parent: string; count: number }>(
      `select "table", parent, count(*) as count from pragma_foreign_key_check group by "table", parent`,
    );
    return [
      ...damage,
      ...lost.map(({ table, parent, count }) => `${count} rows of ${table} name a row of ${parent} that is not there`),
    ];
  } catch (error) {
    if (isCorruption(error)) return [(error as Error).message];
    throw error;
  }
}
