import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lstatSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describeSpecial, isSpecial } from '../../system/base/plain-file.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { isCorruption, StoreUnavailable } from '../failures.ts';
import { isUnreleased, SCHEMA_VERSION } from '../schema.ts';
import type { Connection, Driver } from './driver.ts';
import type { SchemaFlaw } from './migrations.ts';

/** The kind of file at the path of the log. */
export type InspectedLog =
  | { readonly is: 'missing' }
  | Broken
  | { readonly is: 'foreign' | 'moved' | 'newer-schema' | 'unreleased'; readonly reason: string }
  | ({ readonly is: 'sound'; readonly version: number } & OpenFile);

export interface OpenFile {
  readonly connection: Connection;
  /** Whether its journal is a write-ahead log. */
  readonly isWal: boolean;
}

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
export async function inspectLog(folder: StateFolder, opening: Opening): Promise<InspectedLog> {
  const path = folder.database;
  // Never opened by `node:fs`: closing it again would drop SQLite's locks on it.
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return { is: 'missing' };
  assertPlain(path);
  assertWritable(folder);
  // It is made whole, under another name: a short one was cut off by something.
  if (stats.isFile() && stats.size < LEAST_BYTES) {
    return {
      is: 'broken',
      reason: stats.size === 0 ? 'it is empty' : `it has only ${stats.size} bytes`,
      connection: null,
    };
  }
  return await openAndJudge(folder, opening);
}

/**
 * The path of a special file, a named pipe for example, which SQLite would open unchecked and wait for, for ever; null:
 * there is none.
 */
export function findSpecial(path: string): string | null {
  const paths = databaseSuffixes.map((suffix) => path + suffix);
  const isSpecialAt = (each: string): boolean => {
    const stats = statSync(each, { throwIfNoEntry: false });
    return stats !== undefined && isSpecial(stats);
  };
  return paths.find(isSpecialAt) ?? null;
}

/** @throws where there is such a file */
export function assertPlain(path: string): void {
  const special = findSpecial(path);
  if (special !== null) throw new StoreUnavailable('foreign', describeSpecial(special));
}

/** @throws what keeps this user from writing the log */
export function assertWritable({ path, database }: StateFolder): void {
  accessSync(path, constants.W_OK | constants.X_OK);
  accessSync(database, constants.W_OK | constants.R_OK);
}

async function openAndJudge(folder: StateFolder, opening: Opening): Promise<InspectedLog> {
  const path = folder.database;
  let connection: Connection | null = null;
  try {
    connection = opening.driver.open(path, { timeoutMs: opening.busyTimeoutMs });
    const marks = judgeMarks(connection);
    if (marks.is !== 'own') {
      connection.close();
      return marks;
    }
    if (isSuspect(folder)) await lookThrough(connection, folder, opening.driver);
    return { is: 'sound', connection, version: marks.version, isWal: setUpConnection(connection, path, opening) };
  } catch (error) {
    if (isCorruption(error)) return { is: 'broken', reason: (error as Error).message, connection };
    connection?.close();
    // Set aside by another process between the two looks.
    if (statSync(path, { throwIfNoEntry: false }) === undefined) return { is: 'missing' };
    throw error;
  }
}

/** `own`: a log that this runner can read. */
type Marks =
  | { readonly is: 'own'; readonly version: number }
  | Extract<InspectedLog, { readonly is: 'foreign' | 'moved' | 'newer-schema' | 'unreleased' }>;

/** Judges a file by its header. */
export function judgeMarks(connection: Connection): Marks {
  const id = connection.pragma('application_id');
  if (id === MOVED_ID) return { is: 'moved', reason: readMovedTo(connection) };
  if (id !== APPLICATION_ID) return { is: 'foreign', reason: `its application_id is ${id}` };
  const version = Number(connection.pragma('user_version'));
  if (isUnreleased(version)) return { is: 'unreleased', reason: `schema ${version}` };
  if (version <= SCHEMA_VERSION) return { is: 'own', version };
  return { is: 'newer-schema', reason: `schema ${version}, this one knows ${SCHEMA_VERSION}` };
}

function readMovedTo(connection: Connection): string {
  const [moved] = connection.prepare('select place from moved').all([]) as { readonly place: string }[];
  return moved?.place ?? 'a database';
}

async function lookThrough(connection: Connection, folder: StateFolder, driver: Driver): Promise<void> {
  const { findSchemaFlaws } = await import('./migrations.ts');
  const answer = String(connection.pragma('quick_check(1)'));
  if (answer !== 'ok') throw asDamage(answer.replaceAll('\n', ' '));
  connection.exec('begin immediate');
  try {
    restoreTables(connection, findSchemaFlaws(connection, driver));
    connection.exec('commit');
  } finally {
    if (connection.inTransaction) connection.exec('rollback');
  }
  clearSuspicion(folder);
}

/** @throws as for a damaged file where rows are lost; what holds none is made again */
function restoreTables(connection: Connection, flaws: readonly SchemaFlaw[]): void {
  const lost = flaws.filter(({ cure }) => cure === 'new-log');
  if (lost.length > 0) throw asDamage(lost.map(({ what }) => what).join(', '));
  for (const { cure, sql } of flaws) if (cure === 'make-again') connection.exec(sql);
}

function asDamage(reason: string): Error {
  return Object.assign(new Error(reason), { code: 'SQLITE_CORRUPT' });
}

/** "fold": marks the file as an activity log, for `file` and against writing to a foreign database. */
export const APPLICATION_ID = 0x666f6c64;

/** "fomv": a file whose log lives elsewhere now: where, tells its table `moved`. */
export const MOVED_ID = 0x666f6d76;

/** Long enough for three tiers, a report and a backup at once on a slow disk. */
const BUSY_TIMEOUT_MS = 15_000;

/** How the log is opened. */
export interface Opening {
  readonly driver: Driver;
  readonly busyTimeoutMs: number;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}

export function completeOpening(driver: Driver, options: Partial<Opening>): Opening {
  return { driver, busyTimeoutMs: BUSY_TIMEOUT_MS, now: Date.now, ...options };
}

/** SQLite's own default. better-sqlite3's is 16 MB, which a worker would fill in time, for nothing. */
const CACHE_KIB = 2_000;

/**
 * Prepares a connection, and returns whether its journal is a write-ahead log. A write-ahead log without a sync only
 * loses commits, and the session syncs it. A rollback journal without a sync could leave a broken file behind.
 */
function setUpConnection(connection: Connection, path: string, opening: Opening): boolean {
  const isWal = retryWhileBusy(opening.busyTimeoutMs, () => setJournal(connection, path)) === 'wal';
  connection.exec(`pragma synchronous = ${isWal ? 'normal' : 'full'}; pragma cache_size = -${CACHE_KIB}`);
  return isWal;
}

export function setJournal(connection: Connection, path: string): JournalMode {
  const wanted = chooseJournalMode(dirname(path));
  const got = connection.pragma(`journal_mode = ${wanted}`);
  // SQLite answers with the mode it has, without an error, where it cannot change it.
  if (got !== wanted) connection.pragma('journal_mode = truncate');
  return got === wanted ? wanted : 'truncate';
}

const RETRY_MS = 10;

/** SQLite does not wait, as it does elsewhere, for the lock that a change of the journal needs. */
function retryWhileBusy<T>(timeoutMs: number, run: () => T): T {
  let deadline: number | null = null;
  for (;;) {
    try {
      return run();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!code?.startsWith('SQLITE_BUSY')) throw error;
      deadline ??= performance.now() + timeoutMs;
      if (performance.now() > deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}

type JournalMode = 'wal' | 'truncate';

/**
 * File systems on which WAL's shared memory is known to work. On any other, network homes above
 * all, a rollback journal is the safe choice (https://sqlite.org/wal.html, "disadvantages"). Not
 * Btrfs and ZFS, which copy on write: where the quota is used up, writing to the mapped `-shm` ends
 * the process by SIGBUS there.
 */
const localFileSystems: ReadonlySet<number> = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // XFS
  0x01021994, // tmpfs
  0x794c7630, // overlayfs
  0xf2f52010, // F2FS
]);

export function chooseJournalMode(folder: string): JournalMode {
  return localFileSystems.has(Number(statfsSync(folder).type)) ? 'wal' : 'truncate';
}

/**
 * Has the next pass look through the whole log, after an answer that only a damaged file gives. Never
 * throws: a log that cannot even be marked will be met again.
 */
export function markSuspect(folder: StateFolder): void {
  try {
    createPrivateFile(markOf(folder));
  } catch {
    // It is marked already, or cannot be marked.
  }
}

/** True for any kind of file, and for a link that leads to nothing. */
export function isSuspect(folder: StateFolder): boolean {
  return lstatSync(markOf(folder), { throwIfNoEntry: false }) !== undefined;
}

export function clearSuspicion(folder: StateFolder): void {
  rmSync(markOf(folder), { force: true, recursive: true });
}

function markOf({ path }: StateFolder): string {
  return join(path, 'activity.suspect');
}

/** The files that belong to a database, the database itself first. */
export const databaseSuffixes = ['', '-wal', '-shm', '-journal'] as const;

/** SQLite would make it with the umask's mode; -wal and -shm get the mode of the file. */
export function createPrivateFile(path: string): void {
  closeSync(openSync(path, 'wx', 0o600));
}

/** Does work with a file of its own, which is there. */
export function withConnection<T>(
  { driver, busyTimeoutMs = 0 }: Pick<Opening, 'driver'> & Partial<Opening>,
  path: string,
  work: (connection: Connection) => T,
): T {
  const connection = driver.open(path, { timeoutMs: busyTimeoutMs });
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

/** The wanted name, or that with a number behind it, which no database has. */
export function freeName(wanted: string): string {
  const isTaken = (name: string): boolean => databaseSuffixes.some((suffix) => existsSync(name + suffix));
  let name = wanted;
  for (let count = 2; isTaken(name); count += 1) name = `${wanted}-${count}`;
  return name;
}

/** Only while nobody has it open: closing it drops SQLite's locks. */
export function syncFile(path: string): void {
  const fd = openSync(path, 'r+');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function removeDatabase(path: string): void {
  for (const suffix of databaseSuffixes) rmSync(path + suffix, { force: true });
}
