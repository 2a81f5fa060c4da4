import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import type { ActivityLog } from './schema.ts';
import { SCHEMA_VERSION } from './schema-version.ts';
import { sqliteDialect } from './sqlite/dialect.ts';
import { openDatabase } from './sqlite/open-database.ts';

export type Database = Kysely<ActivityLog>;

/** The open activity log. */
export interface Store {
  readonly db: Database;
  close(): Promise<void>;
}

/** Opens the activity log, made when it is missing, at the newest schema. */
export async function openStore(folder: StateFolder): Promise<Store> {
  const database = openDatabase(folder.database);
  const db = new Kysely<ActivityLog>({ dialect: sqliteDialect(database) });
  const version = Number(database.pragma('user_version', { simple: true }));
  if (version > SCHEMA_VERSION) {
    database.close();
    throw newerSchema(folder.database, version);
  }
  if (version < SCHEMA_VERSION) await (await import('./migrate.ts')).migrate(db);
  return { db, close: () => closeAll(db, database) };
}

/** For what only reads: null where nothing has ever run, instead of making an empty log. */
export async function openExistingStore(folder: StateFolder): Promise<Store | null> {
  return existsSync(folder.database) ? openStore(folder) : null;
}

/** Kysely closes only a database that it was asked something of. */
async function closeAll(db: Database, database: { close(): unknown }): Promise<void> {
  await db.destroy();
  database.close();
}

function newerSchema(path: string, version: number): UsageError {
  return new UsageError(
    `${path} was written by a newer runner (schema ${version}, this one knows ${SCHEMA_VERSION}). ` +
      'Update the package with `npm install folder-runner@latest`.',
  );
}
