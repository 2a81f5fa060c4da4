import { existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Kysely } from 'kysely';
import { listNames, utcStamp } from '../../base/values.ts';
import type { StateFolder } from '../../place/state-folder.ts';
import { type Activity, recordActivity } from '../events.ts';
import { kindOfStoreFailure } from '../failures.ts';
import type { ActivityLog } from '../schema.ts';
import type { Connection } from './connection.ts';
import { sqliteDialect } from './dialect.ts';
import {
  APPLICATION_ID,
  type Broken,
  clearSuspicion,
  createPrivateFile,
  databaseSuffixes,
  type InspectedLog,
  inspectLog,
  type Opening,
  removeDatabase,
  setJournal,
  syncFile,
  unplacedLog,
} from './file.ts';
import { migrate } from './migrations.ts';

interface Renewed {
  readonly found: InspectedLog;
  /** The sentence for people, if something was set aside. */
  readonly setAside: string | null;
}

/** Makes a log where there is none, or a broken one; one process at a time, the others find it made. */
export async function renewLog(folder: StateFolder, opening: Opening): Promise<Renewed> {
  return await withStoreLock(folder, opening, async () => {
    const found = inspectLog(folder, opening);
    if (found.is !== 'missing' && found.is !== 'broken') return { found, setAside: null };
    const setAside = await replaceLog(folder, opening, found);
    return { found: inspectLog(folder, opening), setAside };
  });
}

async function replaceLog(
  folder: StateFolder,
  opening: Opening,
  found: Broken | { readonly is: 'missing' },
): Promise<string | null> {
  const { reason, connection } = found.is === 'broken' ? found : nothing;
  const plan = planSettingAside(folder, reason, opening.now());
  const fresh = unplacedLog(folder);
  try {
    // Before anything is moved: where there is no room for it, all stays as it is.
    const activities = plan === null ? [] : [tell(plan)];
    await buildLog(fresh, opening, { activities, lastRun: highestRunNumber(folder) });
    if (plan !== null) setAsideLog(plan, connection, folder);
    removeLeftovers(folder);
    clearSuspicion(folder);
    placeLog(fresh, folder.database);
  } finally {
    connection?.close();
    removeDatabase(fresh);
  }
  return plan?.sentence ?? null;
}

const nothing = { reason: null, connection: null };

function tell({ at, sentence }: SettingAside): Activity {
  return { at, event: 'log-set-aside', detail: sentence };
}

/** What a new log begins with. */
interface Beginning {
  readonly activities: readonly Activity[];
  /** The number that its first run's comes after. */
  readonly lastRun: number;
}

/** Makes a whole log in a file that nobody knows of yet, durable and with mode 0600. */
async function buildLog(
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

/** Which files of the log get which names, so that a new one can be made in its place. */
interface SettingAside {
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly suffixes: readonly string[];
  /** What is done, for people. */
  readonly sentence: string;
}

/** Null: nothing is there that anybody could want to have kept. */
function planSettingAside(
  { database }: StateFolder,
  reason: string | null,
  at: number,
): SettingAside | null {
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
function setAsideLog(
  { from, to, suffixes }: SettingAside,
  log: Connection | null,
  { output }: StateFolder,
): void {
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

/** What a journal without content left behind, or SQLite's index of one. */
function removeLeftovers({ database }: StateFolder): void {
  for (const suffix of databaseSuffixes.slice(1)) rmSync(database + suffix, { force: true });
}

/** `-shm` is only an index of `-wal`. */
function isContent(database: string, suffix: string): boolean {
  return suffix !== '-shm' && statSync(database + suffix).size > 0;
}

/**
 * A runner may still be able to write to it: what it has acknowledged must be in what is moved. What is
 * too broken for SQLite to lock is too broken for anybody to write to.
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

function freeName(wanted: string): string {
  const isTaken = (name: string): boolean =>
    databaseSuffixes.some((suffix) => existsSync(name + suffix));
  let name = wanted;
  for (let count = 2; isTaken(name); count += 1) name = `${wanted}-${count}`;
  return name;
}

function describe(
  database: string,
  reason: string | null,
  { suffixes, to }: Pick<SettingAside, 'suffixes' | 'to'>,
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
    `was created. To read the rest of the old one: \`sqlite3 ${to} .recover\`.`
  );
}

/**
 * Lets one process at a time make a log or set one aside. The lock is SQLite's, on an empty database of
 * its own: whatever its holder dies of, the kernel gives it free at once.
 */
async function withStoreLock<T>(
  { path }: StateFolder,
  opening: Opening,
  work: () => Promise<T>,
): Promise<T> {
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
 * The highest number of a run that has files here. A log made anew goes on from it: else its runs
 * would get the files of those that the log before tells of, some of which may still run.
 */
function highestRunNumber({ output, results, temporary }: StateFolder): number {
  const names = [output, results, temporary].flatMap(listNames);
  return Math.max(0, ...names.flatMap((name) => /^\d{1,15}(?=\.|$)/.exec(name) ?? []).map(Number));
}
