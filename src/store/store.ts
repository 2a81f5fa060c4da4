import { statSync } from 'node:fs';
import { Kysely, type SqliteStatement } from 'kysely';
import type { StateFolder } from '../place/state-folder.ts';
import { kindOfStoreFailure, mayBeFull } from './failures.ts';
import type { ActivityLog } from './schema.ts';
import type { Connection, DriverName } from './sqlite/connection.ts';
import { type Patience, sqliteDialect, takeOverPatience } from './sqlite/dialect.ts';
import { releaseReserve } from './sqlite/reserve.ts';

/** The open activity log. */
export interface Store {
  readonly db: Database;
  readonly driver: DriverName;
  /** True where the log can only be read: writing to it fails. */
  readonly isReadOnly: boolean;
  /** That a broken log was set aside, and where it is now: a sentence for people. */
  readonly setAside: string | null;
  /**
   * For what may be forgotten in a power loss, because nobody was told of it yet: the start of a run.
   * It survives the runner's own death all the same; only the wait for the disk is saved.
   */
  withoutSync<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** Waits no longer than this for a log that others have locked, while this work is done. */
  withPatience<T>(ms: number, work: () => Promise<T>): Promise<T>;
  /** For what must not be lost: on a full disk the reserve is given up, and the work tried once more. */
  retryWhenFull<T>(work: () => Promise<T>): Promise<T>;
  /** Gives so many free pages at the file's end back to the disk, unless others write just now. */
  giveBackPages(pages: number): void;
  /** Differs from the one before if another connection has committed; null: locked just now. */
  dataVersion(): number | null;
  /** `wal`, or `truncate` where that is not safe. */
  journalMode(): string;
  close(): Promise<void>;
}

/** Around a connection to a sound log, which the store closes. */
export function createStore(
  folder: StateFolder,
  connection: Connection,
  { isReadOnly = false, setAside = null }: Partial<Pick<Store, 'isReadOnly' | 'setAside'>>,
): Store {
  const patience = takeOverPatience(connection);
  const checkFile = createFileCheck(folder.database);
  const dialect = sqliteDialect(connection, { patience, checkFile });
  const db = new Kysely<ActivityLog>({ dialect });
  const journalMode = createModeReader(connection);
  return {
    db,
    driver: connection.driver,
    isReadOnly,
    setAside,
    withoutSync: (work) => runWithoutSync(db, connection, journalMode, work),
    withPatience: (ms, work) => runWithPatience(patience, ms, work),
    retryWhenFull: (work) => retryWhenFull(folder, work),
    giveBackPages: (pages) => giveBackPages(connection, pages),
    dataVersion: createVersionReader(connection, journalMode),
    journalMode,
    close: () => closeAll(db, connection),
  };
}

/** With WAL, SQLite itself goes on writing to a log that was set aside by another runner. */
function createFileCheck(path: string): () => void {
  const { ino } = statSync(path);
  return () => {
    if (statSync(path, { throwIfNoEntry: false })?.ino === ino) return;
    const message = `${path} was moved away while it was in use`;
    throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
  };
}

/** Asked once: nobody can change it while somebody has the log open. */
function createModeReader(connection: Connection): () => string {
  let mode: string | null = null;
  return () => {
    mode ??= String(connection.pragma('journal_mode'));
    return mode;
  };
}

/** The connection is held meanwhile, so that nothing else is written like this. */
async function runWithoutSync<T>(
  db: Database,
  connection: Connection,
  journalMode: () => string,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  // A rollback journal without sync could leave a broken file behind; WAL only forgets.
  if (journalMode() !== 'wal') return work(db);
  return db.connection().execute(async (held) => {
    connection.exec('pragma synchronous = normal');
    try {
      return await work(held);
    } finally {
      connection.exec('pragma synchronous = full');
    }
  });
}

async function runWithPatience<T>(
  patience: Patience,
  ms: number,
  work: () => Promise<T>,
): Promise<T> {
  const before = patience.ms;
  patience.ms = ms;
  try {
    return await work();
  } finally {
    patience.ms = before;
  }
}

/** Not through Kysely: it asks for one row of a statement without columns, which is one page. */
function giveBackPages(connection: Connection, pages: number): void {
  try {
    connection.exec(`pragma incremental_vacuum(${pages})`);
  } catch (error) {
    // Whoever comes next and finds nobody else at it gives them back.
    if (kindOfStoreFailure(error) !== 'locked') throw error;
  }
}

async function retryWhenFull<T>(folder: StateFolder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!mayBeFull(error) || !releaseReserve(folder)) throw error;
    return await work();
  }
}

/** Kysely closes only a database that it was asked something of. */
async function closeAll(db: Database, connection: Connection): Promise<void> {
  await db.destroy();
  connection.close();
}

/**
 * Reads a number that differs from the one before if another connection has committed meanwhile; null:
 * the log is locked just now. It does not wait for the lock: whoever asks has other things to do.
 */
function createVersionReader(
  connection: Connection,
  journalMode: () => string,
): () => number | null {
  let prepared: SqliteStatement | null = null;
  return () => {
    const statement = prepared ?? connection.prepare('pragma data_version');
    prepared = statement;
    // With WAL no reader ever has to wait for a writer.
    if (journalMode() === 'wal') return readVersion(statement);
    return withoutWaiting(connection, () => readVersion(statement));
  };
}

function readVersion(statement: SqliteStatement): number | null {
  try {
    const [row] = statement.all([]) as { readonly data_version: number }[];
    return row?.data_version ?? null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith('SQLITE_BUSY')) return null;
    throw error;
  }
}

function withoutWaiting<T>(connection: Connection, work: () => T): T {
  const timeoutMs = Number(connection.pragma('busy_timeout'));
  connection.pragma('busy_timeout = 0');
  try {
    return work();
  } finally {
    connection.pragma(`busy_timeout = ${timeoutMs}`);
  }
}

/** What queries of the activity log are asked of. */
export type Database = Kysely<ActivityLog>;
