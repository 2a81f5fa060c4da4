import { accessSync, constants, statSync } from 'node:fs';
import type { StateFolder } from '../config/state-folder.ts';
import { SCHEMA_VERSION } from './schema-version.ts';
import type { Connection } from './sqlite/connection.ts';
import { APPLICATION_ID, type Opening, setUpConnection } from './sqlite/open-database.ts';
import { isCorruption } from './store-failure.ts';
import { clearSuspicion, isSuspect } from './suspicion.ts';

/** What is at the place of the log. */
export type Found =
  | { readonly is: 'missing' }
  | Broken
  | { readonly is: 'foreign' | 'newer-schema'; readonly reason: string }
  | { readonly is: 'sound'; readonly connection: Connection; readonly version: number };

export interface Broken {
  readonly is: 'broken';
  readonly reason: string;
  /**
   * To be closed when the file has been moved. Closed earlier it would do away with the journal;
   * SQLite leaves alone what is beside a file that is not its own any more.
   */
  readonly connection: Connection | null;
}

/** So large is the smallest database; SQLite takes less for one that is empty. */
const LEAST_BYTES = 512;

/**
 * Looks at the log and, if it is a sound one, opens it for reading and writing.
 *
 * @throws when it cannot be opened or written, for reasons that the file is not to blame for
 */
export function inspectLog(folder: StateFolder, opening: Opening): Found {
  const path = folder.database;
  // Never opened by `node:fs`: closing it again would drop SQLite's locks on it.
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return { is: 'missing' };
  assertWritable(folder);
  // It is made whole, under another name: a short one was cut off by something.
  if (stats.isFile() && stats.size < LEAST_BYTES) {
    return { is: 'broken', reason: `only ${stats.size} bytes are left of it`, connection: null };
  }
  return openAndJudge(folder, opening);
}

/** @throws what keeps this user from writing the log */
export function assertWritable({ path, database }: StateFolder): void {
  accessSync(path, constants.W_OK | constants.X_OK);
  accessSync(database, constants.W_OK | constants.R_OK);
}

function openAndJudge(folder: StateFolder, opening: Opening): Found {
  const path = folder.database;
  let connection: Connection | null = null;
  try {
    connection = opening.driver.open(path, { timeoutMs: opening.busyTimeoutMs });
    const other = judgeMarks(connection);
    if (other !== null) {
      connection.close();
      return other;
    }
    if (isSuspect(folder)) lookThrough(connection, folder);
    setUpConnection(connection, path, opening);
    return { is: 'sound', connection, version: readVersion(connection) };
  } catch (error) {
    if (isCorruption(error)) return { is: 'broken', reason: (error as Error).message, connection };
    connection?.close();
    // Set aside by another process between the two looks.
    if (statSync(path, { throwIfNoEntry: false }) === undefined) return { is: 'missing' };
    throw error;
  }
}

/** By what stands in the file's header; null: it is a log that this runner can read. */
export function judgeMarks(
  connection: Connection,
): Extract<Found, { readonly is: 'foreign' | 'newer-schema' }> | null {
  const id = connection.pragma('application_id');
  if (id !== APPLICATION_ID) return { is: 'foreign', reason: `its application_id is ${id}` };
  const version = readVersion(connection);
  if (version <= SCHEMA_VERSION) return null;
  return { is: 'newer-schema', reason: `schema ${version}, this one knows ${SCHEMA_VERSION}` };
}

export function readVersion(connection: Connection): number {
  return Number(connection.pragma('user_version'));
}

function lookThrough(connection: Connection, folder: StateFolder): void {
  const answer = String(connection.pragma('quick_check(1)'));
  if (answer !== 'ok') {
    throw Object.assign(new Error(answer.replaceAll('\n', ' ')), { code: 'SQLITE_CORRUPT' });
  }
  clearSuspicion(folder);
}
