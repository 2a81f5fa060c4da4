import {
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { ActivityLog } from './schema.ts';

/** What a reader gets where nothing has ever run: every question is answered with no rows. */
export function openEmptyLog(): Kysely<ActivityLog> {
  return new Kysely<ActivityLog>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  });
}
