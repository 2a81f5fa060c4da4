import { existsSync } from 'node:fs';
import { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import { UsageError } from '../config/usage-error.ts';
import type { ActivityLog } from './schema.ts';
import { SCHEMA_VERSION } from './schema-version.ts';
import { sqliteDialect } from './sqlite/dialect.ts';
import { openDatabase } from './sqlite/open-database.ts';

type SqliteConnection = ReturnType<typeof openDatabase>;

export type Database = Kysely<ActivityLog>;

/** The open activity log. */
export interface Store {
  readonly db: Database;
  /**
   * For what may be forgotten in a power loss, because nobody was told of it yet: the start of a run.
   * It survives the runner's own death all the same; only the wait for the disk is saved.
   */
  withoutSync<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** Gives so many free pages at the file's end back to the disk. */
  giveBackPages(pages: number): void;
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
  return {
    db,
    withoutSync: (work) => runWithoutSync(db, database, work),
    // Not through Kysely: it asks for one row of a statement without columns, which is one page.
    giveBackPages: (pages) => database.exec(`pragma incremental_vacuum(${pages})`),
    close: () => closeAll(db, database),
  };
}

/** The connection is held meanwhile, so that nothing else is written like this. */
async function runWithoutSync<T>(
  db: Database,
  database: SqliteConnection,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  // A rollback journal without sync could leave a broken file behind; WAL only forgets.
  if (database.pragma('journal_mode', { simple: true }) !== 'wal') return work(db);
  return db.connection().execute(async (connection) => {
    database.pragma('synchronous = normal');
    try {
      return await work(connection);
    } finally {
      database.pragma('synchronous = full');
    }
  });
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
