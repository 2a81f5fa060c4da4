import Sqlite from 'better-sqlite3';
import { type CompiledQuery, Kysely } from 'kysely';
import { onTestFinished } from 'vitest';
import type { ActivityLog } from '../../src/store/schema.ts';
import { sqliteDialect } from '../../src/store/sqlite/dialect.ts';
import type { Database } from '../../src/store/store.ts';

/** Explains how SQLite answers each query that a function asks of a log. */
export async function explainQueries(
  path: string,
  ask: (db: Database) => Promise<unknown>,
): Promise<string[]> {
  const database = new Sqlite(path);
  onTestFinished(() => void database.close());
  const queries: CompiledQuery[] = [];
  const db = new Kysely<ActivityLog>({
    dialect: sqliteDialect(database),
    log: ({ query }) => void queries.push(query),
  });
  await ask(db);
  return queries
    .filter((query) => /^\s*(select|with|delete|update)/i.test(query.sql))
    .map((query) => {
      const rows = database.prepare(`explain query plan ${query.sql}`).all(...query.parameters);
      return rows.map((row) => (row as { readonly detail: string }).detail).join('; ');
    });
}
