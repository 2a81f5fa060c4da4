import { existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { Kysely } from 'kysely';
import { type Activity, recordActivity } from './activity.ts';
import { createPrivateFile, removeDatabase, syncFile } from './database-files.ts';
import { migrate } from './migrate.ts';
import type { ActivityLog } from './schema.ts';
import type { Connection } from './sqlite/connection.ts';
import { sqliteDialect } from './sqlite/dialect.ts';
import { APPLICATION_ID, type Opening, setJournal } from './sqlite/open-database.ts';

/** What a new log begins with. */
export interface Beginning {
  readonly activities: readonly Activity[];
  /** The number that its first run's comes after. */
  readonly lastRun: number;
}

/** Makes a whole log in a file that nobody knows of yet, durable and with mode 0600. */
export async function buildLog(
  path: string,
  { driver, busyTimeoutMs }: Opening,
  { activities, lastRun }: Beginning,
): Promise<void> {
  removeDatabase(path);
  createPrivateFile(path);
  const connection = driver.open(path, { timeoutMs: busyTimeoutMs });
  try {
    await fill(connection, activities);
    if (lastRun > 0) connection.exec(`insert into sqlite_sequence values ('runs', ${lastRun})`);
    setJournal(connection, path);
  } finally {
    connection.close();
  }
  syncFile(path);
}

/** Waits for the disk once, at the end, as nobody sees what is there before. */
async function fill(connection: Connection, activities: readonly Activity[]): Promise<void> {
  connection.pragma('journal_mode = memory');
  connection.pragma('synchronous = off');
  // Must come before the first table: it cannot be switched on later without a rewrite.
  connection.pragma('auto_vacuum = incremental');
  connection.pragma(`application_id = ${APPLICATION_ID}`);
  const db = new Kysely<ActivityLog>({ dialect: sqliteDialect(connection) });
  await migrate(db);
  await recordActivity(db, activities);
}

/**
 * Gives the new log its name, unless there is a log by now.
 *
 * @param link for tests: file systems without hard links are rare
 */
export function placeLog(from: string, to: string, link = linkSync): void {
  try {
    link(from, to);
  } catch {
    // No hard links here, or somebody else was faster.
    if (!existsSync(to)) renameSync(from, to);
  }
  rmSync(from, { force: true });
}
