import { existsSync, lstatSync, type Stats, type StatsFs, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode, isOfSystem } from '../system/base/errors.ts';
import { demandAccess, listStateFolders, type StateFolder } from '../system/place/state-folder.ts';
import { isLogFailure, kindOfStoreFailure, mayBeFull, type StoreFailureKind, StoreUnavailable } from './failures.ts';
import { isOnServer } from './shared/which-log.ts';

type Describe = (path: string, reason: string) => string;

/** Servers have sentences of their own: `server/connect/describe-failure.ts`. */
type FileFailureKind = Exclude<StoreFailureKind, 'away' | 'refused'>;

const sentences: Readonly<Record<FileFailureKind, Describe>> = {
  locked: (path, reason) =>
    `${path} stays locked by another program (${reason}). ` +
    `If that lasts, end the program: \`fuser -v ${path}\` names it.`,
  'read-only': (path, reason) =>
    `${path} cannot be written (${reason}). ` +
    'Make it and its folder writable for the user that cron runs the runner as.',
  full: (path, reason) =>
    `No space left for ${path} (${reason}): the disk is full, or your quota is used up. ` +
    'Delete files that you do not need.',
  broken: (path, reason) =>
    `${path} seems to be damaged (${reason}). The next pass checks it: a damaged file is kept under another ` +
    'name, and a new log is created.',
  changed: (path, reason) =>
    `${path} could not be used (${reason}): perhaps another program has changed it. The next pass looks through it, ` +
    'and quarantines it if a table or column is missing; `npx folder-runner doctor` says what else is wrong.',
  'newer-schema': (path, reason) =>
    `${path} was written by a newer runner (${reason}). ` +
    'Update the package with `npm install folder-runner@latest`.',
  foreign: (path) =>
    `${path} is not an activity log: another program created it. Move it away; then a new log is created.`,
  unreleased: (path, reason) =>
    `${path} was made before the first release (${reason}). Move it away; then a new log is created.`,
  moved: (path, place) =>
    `${path} was moved to ${place}: set RUNNER_DATABASE_URL here, too. \`npx folder-runner migrate --help\` has the way back.`,
  'no-driver': (path, reason) =>
    `${path} cannot be opened: SQLite could not be loaded (${reason}). ` +
    'Install the package again for this Node, or use a Node that has `node:sqlite`.',
  io: (path, reason) =>
    `${path} cannot be used (${reason}). ` +
    'Check the disk it is on, your quota, and the owner and mode of the file and its folder.',
};

/** Explains to people what happened to the log and what to do about it. */
export function describeStoreFailure(error: unknown, folder: StateFolder): string {
  return toStoreUnavailable(error, folder).message;
}

/** The same as an error. */
export function toStoreUnavailable(error: unknown, folder: StateFolder): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  if (isOnServer(folder.env)) return new StoreUnavailable('changed', describeUnforeseen(error), { cause: error });
  const place = movedPlaceIn(error);
  if (place !== null) return storeUnavailable('moved', folder.database, place, error);
  const kind = kindAt(folder, error);
  return new StoreUnavailable(kind, describe(error, kind, folder), { cause: error });
}

/** The text before and after the place in an error of {@link tellMovedFile}. */
const aroundPlace = ['this log was moved to ', ', and takes no more here'] as const;

/** The error by which SQLite informs every program that had the log's file open when it was moved, and is no runner. */
export function tellMovedFile(place: string): string {
  return aroundPlace.join(place);
}

function movedPlaceIn(error: unknown): string | null {
  const text = errorCode(error) === 'SQLITE_CONSTRAINT_TRIGGER' ? (error as Error).message : '';
  const [before, after] = aroundPlace;
  return text.startsWith(before) && text.endsWith(after) ? text.slice(before.length, -after.length) : null;
}

/**
 * For work with the open log, and with whatever else: only SQLite's failures are the log's.
 *
 * @throws {StoreUnavailable} instead of SQLite's own words
 */
export async function toldPlainly<T>(folder: StateFolder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isLogFailure(error) ? toStoreUnavailable(error, folder) : error;
  }
}

/** Known refusals of a server have been described before. */
function describeUnforeseen(error: unknown): string {
  return `The activity log on the database server could not be used (${reasonOf(error)}). \`npx folder-runner doctor\` checks it.`;
}

function kindAt({ path }: StateFolder, error: unknown): FileFailureKind {
  const kind = (kindOfStoreFailure(error) as FileFailureKind | null) ?? (isOfSystem(error) ? 'io' : 'changed');
  return kind === 'io' && mayBeFull(error) && isFull(path) ? 'full' : kind;
}

/** Less than the files take that SQLite makes beside a log. */
const NEXT_TO_NOTHING = 256 * 1024;
/** As many as a pass makes at a time. */
const NEXT_TO_NONE = 16;

/** Btrfs and some network file systems have no fixed number of files: they tell of none at all. */
function isFull(folder: string): boolean {
  return hasLittle(folder, ({ bavail, bsize }) => bavail * bsize < NEXT_TO_NOTHING) || isOutOfInodes(folder);
}

function isOutOfInodes(folder: string): boolean {
  return hasLittle(folder, ({ files, ffree }) => files > 0 && ffree < NEXT_TO_NONE);
}

function hasLittle(folder: string, judge: (stats: StatsFs) => boolean): boolean {
  try {
    return judge(statfsSync(existsSync(folder) ? folder : dirname(folder)));
  } catch {
    return false;
  }
}

function describe(error: unknown, kind: FileFailureKind, folder: StateFolder): string {
  const { database } = folder;
  if (errorCode(error) === 'SQLITE_READONLY_DBMOVED') {
    return `${database} was moved away while it was in use. The next pass uses the log that exists then.`;
  }
  const obstacle = isOfPlace(error) ? findObstacle(folder) : null;
  if (obstacle !== null) return `${database} is not used: ${obstacle}`;
  const isShutOut = ['EACCES', 'EPERM', 'SQLITE_CANTOPEN'].includes(errorCode(error));
  const place = (isShutOut && findClosed(folder)) || database;
  const reason = reasonOf(error);
  if (kind === 'full' && isOutOfInodes(folder.path)) {
    return (
      `No file can be made in ${folder.path} (${reason}): it has no inodes left, so it takes no more files. ` +
      'Delete files that you do not need, small ones too: caches and old sessions are usually the most.'
    );
  }
  return sentences[kind](place, reason);
}

/** Whether something else than what is in the log may be to blame. */
function isOfPlace(error: unknown): boolean {
  return isOfSystem(error) || /^SQLITE_(CANTOPEN|IOERR|READONLY)/.test(errorCode(error));
}

/** An entry that somebody has put in the place of a folder or a file of the runner. */
function findObstacle(folder: StateFolder): string | null {
  const { path, database } = folder;
  const folders = listStateFolders(folder).map((each) => judgeKind(each, 'folder', (stats) => stats.isDirectory()));
  const names = ['activity.lock', 'activity.new'].map((name) => join(path, name));
  const files = [database, `${database}-wal`, `${database}-shm`, `${database}-journal`, ...names].map((each) =>
    judgeKind(each, 'file', (stats) => stats.isFile()),
  );
  return [...folders, ...files].find((each) => each !== null) ?? null;
}

function judgeKind(path: string, wanted: 'folder' | 'file', isFine: (stats: Stats) => boolean): string | null {
  try {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats === undefined || isFine(followed(path) ?? stats)) return null;
    return `${path} is ${nameKind(stats, wanted)}, and a ${wanted} of that name is needed. Remove it.`;
  } catch {
    return null;
  }
}

/** Null where a link leads nowhere, or to itself. */
function followed(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

function nameKind(stats: Stats, wanted: string): string {
  if (stats.isSymbolicLink()) return `a link that leads to no ${wanted}`;
  if (stats.isFile()) return 'a file';
  return stats.isDirectory() ? 'a folder' : 'a named pipe, a socket or a device';
}

/** A folder that this user is shut out of, while the log may be fine itself. */
function findClosed(folder: StateFolder): string | null {
  return listStateFolders(folder).find((path) => existsSync(path) && !isOpen(path)) ?? null;
}

function isOpen(path: string): boolean {
  try {
    demandAccess(path);
    return true;
  } catch {
    return false;
  }
}

/** For an exhausted quota Node only has a number; an unforeseen error needs its place in the code. */
function reasonOf(error: unknown): string {
  if (errorCode(error) === 'EDQUOT') return 'EDQUOT: the disk quota is exceeded';
  if (!(error instanceof Error)) return String(error);
  if (errorCode(error) !== '') return error.message;
  const place = error.stack?.split('\n').find((line) => /^\s+at /.test(line));
  return `${error}${place === undefined ? '' : ` ${place.trim()}`}`;
}

/** For what no error of SQLite's tells. */
export function storeUnavailable(
  kind: FileFailureKind,
  path: string,
  reason: string,
  cause?: unknown,
): StoreUnavailable {
  return new StoreUnavailable(kind, sentences[kind](path, reason), { cause });
}
