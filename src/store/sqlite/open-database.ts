import { closeSync, existsSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { UsageError } from '../../config/usage-error.ts';
import { chooseJournalMode } from './journal-mode.ts';

/** "fold": marks the file as an activity log, for `file` and against opening a foreign database. */
export const APPLICATION_ID = 0x666f6c64;

/** Long enough for three tiers, a report and a backup at once on a slow disk. */
const BUSY_TIMEOUT_MS = 15_000;

/** Opens the file, made with mode 0600 when it is missing, and sets what each connection needs. */
export function openDatabase(path: string): Database.Database {
  // SQLite would make it with the umask's mode, and gives -wal and -shm the mode of the file.
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
  const database = new Database(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    retryWhileBusy(() => claimFile(database, path));
    retryWhileBusy(() => setJournal(database, path));
    return database;
  } catch (error) {
    database.close();
    throw (error as NodeJS.ErrnoException).code === 'SQLITE_NOTADB' ? foreignFile(path) : error;
  }
}

function claimFile(database: Database.Database, path: string): void {
  if (readApplicationId(database) === APPLICATION_ID) return;
  const isEmpty = !hasTables(database);
  // Asked again after the tables: another runner may have made the log between the two looks.
  const id = readApplicationId(database);
  if (id === APPLICATION_ID) return;
  if (id !== 0 || !isEmpty) throw foreignFile(path);
  // Must come before the first table: it cannot be switched on later without a rewrite.
  database.pragma('auto_vacuum = incremental');
  database.pragma(`application_id = ${APPLICATION_ID}`);
}

function readApplicationId(database: Database.Database): unknown {
  return database.pragma('application_id', { simple: true });
}

function foreignFile(path: string): UsageError {
  return new UsageError(
    `${path} is not an activity log: another program made it. Move it away; a new log is made then.`,
  );
}

function hasTables(database: Database.Database): boolean {
  return database.prepare('select 1 from sqlite_master limit 1').get() !== undefined;
}

const RETRY_MS = 10;

/** SQLite does not wait, as it does elsewhere, for the lock that a change of the journal needs. */
function retryWhileBusy<T>(run: () => T): T {
  const deadline = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      return run();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!code?.startsWith('SQLITE_BUSY') || performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

/** FULL: what was acknowledged survives a power loss. */
function setJournal(database: Database.Database, path: string): void {
  const wanted = chooseJournalMode(dirname(path));
  const got = database.pragma(`journal_mode = ${wanted}`, { simple: true });
  // SQLite answers with the mode it has, without an error, where it cannot change it.
  if (got !== wanted) database.pragma('journal_mode = truncate');
  database.pragma('synchronous = full');
  database.pragma('foreign_keys = on');
}
