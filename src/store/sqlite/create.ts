import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { errorCode } from '../../system/base/errors.ts';
import { listNames, utcStamp } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { kindOfStoreFailure } from '../failures.ts';
import { eventsOf, type NewEvent } from '../statements/events.ts';
import { type Connection, type Driver, findDriver } from './driver.ts';
import {
  APPLICATION_ID,
  type Broken,
  clearSuspicion,
  createPrivateFile,
  databaseSuffixes,
  freeName,
  type InspectedLog,
  inspectLog,
  type Opening,
  removeDatabase,
  setJournal,
  syncFile,
  withConnection,
} from './file.ts';
import { migrateFile } from './migrations.ts';
import { SqliteSession } from './session.ts';
import type { SqliteStore } from './store.ts';

interface Renewed {
  readonly found: InspectedLog;
  /** The sentence for people, if something was quarantined. */
  readonly quarantined: string | null;
}

/** Makes a log where there is none, or a broken one; one process at a time, the others find it made. */
export async function renewLog(folder: StateFolder, opening: Opening): Promise<Renewed> {
  return await withStoreLock(folder, opening, async () => {
    const found = await inspectLog(folder, opening);
    if (found.is !== 'missing' && found.is !== 'broken') return { found, quarantined: null };
    const quarantined = await replaceLog(folder, opening, found);
    return { found: await inspectLog(folder, opening), quarantined };
  });
}

async function replaceLog(
  folder: StateFolder,
  opening: Opening,
  found: Broken | { readonly is: 'missing' },
): Promise<string | null> {
  const { reason, connection } = found.is === 'broken' ? found : nothing;
  const plan = planQuarantine(folder, reason, opening.now());
  const fresh = join(folder.path, 'activity.new');
  try {
    // Before anything is moved: where there is no room for it, all stays as it is.
    const event = plan === null ? null : toEvent(plan);
    await buildLog(fresh, opening, { event, lastWorker: highestWorkerNumber(folder) });
    if (plan !== null) quarantineLog(plan, connection, folder);
    removeLeftovers(folder);
    clearSuspicion(folder);
    // The store's lock keeps others from making one meanwhile.
    renameSync(fresh, folder.database);
  } finally {
    connection?.close();
    removeDatabase(fresh);
  }
  return plan?.sentence ?? null;
}

const nothing = { reason: null, connection: null };

function toEvent({ at, sentence }: Quarantine): NewEvent {
  return { at, event: 'log-quarantined', detail: sentence };
}

/** The first contents of a new log. */
interface Beginning {
  readonly event: NewEvent | null;
  /** The number that its first worker's comes after. */
  readonly lastWorker: number;
}

/** Makes a whole log in a file that no process knows yet, durable and with mode 0600. */
export async function buildLog(
  path: string,
  { driver, busyTimeoutMs }: Opening,
  { event, lastWorker }: Beginning,
): Promise<void> {
  removeDatabase(path);
  createPrivateFile(path);
  const connection = driver.open(path, { timeoutMs: busyTimeoutMs });
  try {
    await fill(connection, event);
    if (lastWorker > 0) {
      connection.exec(`insert into sqlite_sequence values ('workers', ${lastWorker})`);
    }
    setJournal(connection, path);
  } finally {
    connection.close();
  }
  syncFile(path);
}

/** Makes the file of a log that has no tables yet. */
export function startLog(path: string, driver: Driver): void {
  removeDatabase(path);
  createPrivateFile(path);
  withConnection({ driver }, path, setMarks);
}

function setMarks(connection: Connection): void {
  // Must come before the first table: it cannot be switched on later without a rewrite.
  connection.pragma('auto_vacuum = incremental');
  connection.pragma(`application_id = ${APPLICATION_ID}`);
}

/** Waits for the disk once, at the end, as nobody sees what is there before. */
async function fill(connection: Connection, event: NewEvent | null): Promise<void> {
  connection.pragma('journal_mode = memory');
  connection.pragma('synchronous = off');
  setMarks(connection);
  migrateFile(connection);
  if (event !== null) await eventsOf(new SqliteSession(connection)).record([event]);
}

/** Which files of the log get which names, so that a new one can be made in its place. */
interface Quarantine {
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly suffixes: readonly string[];
  /** The action, as a sentence for people. */
  readonly sentence: string;
}

/** Null: nothing is there that a person could want to keep. */
function planQuarantine({ database }: StateFolder, reason: string | null, at: number): Quarantine | null {
  const suffixes = databaseSuffixes.filter((suffix) => existsSync(database + suffix));
  if (reason === null && !suffixes.some((suffix) => isContent(database, suffix))) return null;
  const to = freeName(`${database}.broken-${utcStamp(at)}`);
  return {
    at,
    from: database,
    to,
    suffixes,
    sentence: describe(database, reason, { suffixes, to }),
  };
}

/**
 * Moves the files, the database first: what is met without its database is never taken for that of
 * the new one.
 */
function quarantineLog({ from, to, suffixes }: Quarantine, log: Connection | null, { output }: StateFolder): void {
  if (log !== null) lockIfPossible(log);
  for (const suffix of suffixes) renameIfThere(from + suffix, to + suffix);
  moveKeptOutput(output, `${to}.output`);
}

/** Long outputs, which only its rows name. */
function moveKeptOutput(from: string, to: string): void {
  const kept = listNames(from).filter((name) => name.endsWith('.gz'));
  if (kept.length > 0) mkdirSync(to, { mode: 0o700, recursive: true });
  for (const name of kept) renameSync(join(from, name), join(to, name));
}

/** Removes a journal without content, and SQLite's index of a journal. */
function removeLeftovers({ database }: StateFolder): void {
  for (const suffix of databaseSuffixes.slice(1)) rmSync(database + suffix, { force: true });
}

/** `-shm` is only an index of `-wal`. */
function isContent(database: string, suffix: string): boolean {
  return suffix !== '-shm' && statSync(database + suffix).size > 0;
}

/**
 * A runner may still be able to write to it: the records that it has acknowledged must be in the file that is moved. A
 * file too broken for SQLite to lock is too broken to be written to.
 */
function lockIfPossible(connection: Connection): void {
  try {
    connection.exec('begin immediate');
  } catch (error) {
    if (kindOfStoreFailure(error) === 'locked') throw error;
  }
}

/** SQLite itself does away with a journal that it has rolled back. */
function renameIfThere(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to);
}

function describe(
  database: string,
  reason: string | null,
  { suffixes, to }: Pick<Quarantine, 'suffixes' | 'to'>,
): string {
  if (reason === null) {
    const names = suffixes.map((suffix) => database + suffix).join(', ');
    return (
      `${names} existed without ${database}: renamed to ${to}…, and a new log was created. ` +
      'If you have moved the log away, put them beside it under its name.'
    );
  }
  return (
    `${database} was damaged (${reason}): renamed to ${to}, with its journal files, and a new log ` +
    `was created. To read the rest of the old one: \`sqlite3 ${to} .dump\`.`
  );
}

/**
 * Lets one process at a time make a log or quarantine one. The lock is SQLite's, on an empty database of
 * its own: whatever its holder dies of, the kernel gives it free at once.
 */
export async function withStoreLock<T>({ path }: StateFolder, opening: Opening, work: () => Promise<T>): Promise<T> {
  const file = join(path, 'activity.lock');
  createEmpty(file);
  const lock = opening.driver.open(file, { timeoutMs: 0 });
  try {
    await beginWhenFree(lock, opening.busyTimeoutMs);
    return await work();
  } finally {
    lock.close();
  }
}

/** Never one that is there: closing it would drop a lock that this process holds on it. */
function createEmpty(path: string): void {
  try {
    createPrivateFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const RETRY_MS = 10;

async function beginWhenFree(lock: Connection, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!lock.inTransaction) {
    try {
      lock.exec('begin exclusive');
    } catch (error) {
      if (kindOfStoreFailure(error) !== 'locked' || performance.now() > deadline) throw error;
      await wait(RETRY_MS);
    }
  }
}

/**
 * The highest number of a worker whose runs have files here. The numbers of a new log go on from it: otherwise its runs
 * would get the names of files of earlier runs, some of which may still be running.
 */
function highestWorkerNumber({ output, results, temporary }: StateFolder): number {
  const names = [output, results, temporary].flatMap(listNames);
  return Math.max(0, ...names.flatMap((name) => /^\d{1,15}(?=\.|$)/.exec(name) ?? []).map(Number));
}

/** A copy of the log that stands alone. */
interface Backup {
  readonly path: string;
  readonly bytes: number;
}

/**
 * Copies the log as it is at one moment, while passes write to it. The copy appears under its name
 * when it is whole and was looked through; a file of that name is replaced.
 *
 * @throws when it cannot be written, or is damaged; nothing is left of it then
 */
export async function backUp(store: SqliteStore, path: string): Promise<Backup> {
  try {
    await writeCopy(store, path);
    return { path, bytes: statSync(path).size };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const message = `${path} was not written: ${describeFailure(error as Error, dirname(path))}`;
    throw Object.assign(new Error(message, { cause: error }), { code });
  }
}

function describeFailure(error: Error, folder: string): string {
  const noRoom = `no space left in ${folder}; delete files that you do not need, or name another folder`;
  const sentences: Readonly<Record<string, string>> = {
    EACCES: `your user may not write in ${folder}; name a file in another folder`,
    EROFS: `${folder} is read-only; name a file in another folder`,
    // As in /proc: the folder is there.
    ENOENT: `no file can be made in ${folder}; name one in another folder`,
    ENOSPC: noRoom,
    EDQUOT: noRoom,
    SQLITE_FULL: noRoom,
    SQLITE_BUSY: 'the log stays locked by another program; try again when that has ended',
  };
  return sentences[errorCode(error)] ?? error.message;
}

async function writeCopy(store: SqliteStore, path: string): Promise<void> {
  const unfinished = `${path}.unfinished-${process.pid}`;
  createPrivateFile(unfinished);
  try {
    store.connection.prepare('vacuum into ?').run([unfinished]);
    await assertSound(unfinished);
    syncFile(unfinished);
    renameSync(unfinished, path);
  } finally {
    removeDatabase(unfinished);
  }
}

async function assertSound(path: string): Promise<void> {
  const answer = withConnection(await findDriver(), path, (copy) => copy.pragma('integrity_check(1)'));
  if (answer === 'ok') return;
  throw Object.assign(new Error(`the log is damaged: ${answer}`), { code: 'SQLITE_CORRUPT' });
}
