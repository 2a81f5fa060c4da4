import { type Kysely, Migrator, sql } from 'kysely';
import { migrations } from './migrations/index.ts';
import type { ActivityLog } from './schema.ts';

/** Brings the tables to the newest schema, all or nothing, once however many processes try. */
export async function migrate(db: Kysely<ActivityLog>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  await sql`pragma user_version = ${sql.lit(Object.keys(migrations).length)}`.execute(db);
}
