import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import type { ActivityLog } from '../schema.ts';
import { buildQueries, type Compiler } from '../shared/queries.ts';
import type { Statements } from '../shared/sql/statements.ts';

const compiler: Compiler = {
  createAdapter: () => new SqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
  createQueryCompiler: () => new SqliteQueryCompiler(),
};

export function queriesOf(statements: Statements): Kysely<ActivityLog> {
  return buildQueries(compiler, (text, values) => statements.all(text, values));
}

/** The queries of a log that does not exist yet: each one returns no rows. */
export function emptyQueries(): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({ dialect: { ...compiler, createDriver: () => new DummyDriver() } });
}
