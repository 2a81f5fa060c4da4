import { statfsSync } from 'node:fs';
import { errorCode } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';

import { isLogFailure, kindOfStoreFailure, mayBeFull, type StoreFailureKind, StoreUnavailable } from './failures.ts';

type Describe = (path: string, reason: string) => string;

const sentences: Readonly<Record<StoreFailureKind, Describe>> = {
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
    `${path} is damaged (${reason}). The next pass checks it, quarantines it if it is, ` +
    'and creates a new log; nothing is deleted.',
  changed: (path, reason) =>
    `${path} could not be used (${reason}): perhaps another program has changed it. The next pass looks through it, ` +
    'and quarantines it if a table or column is missing; `runner doctor` says what else is wrong.',
  'newer-schema': (path, reason) =>
    `${path} was written by a newer runner (${reason}). ` +
    'Update the package with `npm install folder-runner@latest`.',
  foreign: (path) =>
    `${path} is not an activity log: another program created it. Move it away; then a new log is created.`,
  'no-driver': (path, reason) =>
    `${path} cannot be opened: SQLite could not be loaded (${reason}). ` +
    'Install the package again for this Node, or use a Node that has `node:sqlite`.',
  io: (path, reason) =>
    `${path} cannot be used (${reason}). ` +
    'Check the disk it is on, your quota, and the owner and mode of the file and its folder.',
};

/** What happened to the log and what to do about it, for people. */
export function describeStoreFailure(error: unknown, folder: StateFolder): string {
  return toStoreUnavailable(error, folder).message;
}

/** The same as an error. */
export function toStoreUnavailable(error: unknown, folder: StateFolder): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const kind = kindAt(folder, error);
  return new StoreUnavailable(kind, describe(error, kind, folder), { cause: error });
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

function kindAt({ path }: StateFolder, error: unknown): StoreFailureKind {
  const kind = kindOfStoreFailure(error) ?? (isOfFileSystem(error) ? 'io' : 'changed');
  return kind === 'io' && mayBeFull(error) && isFull(path) ? 'full' : kind;
}

function isOfFileSystem(error: unknown): boolean {
  return /^E(?!RR_)[A-Z0-9]+$/.test(errorCode(error));
}

/** Less than the files take that SQLite makes beside a log. */
const NEXT_TO_NOTHING = 256 * 1024;

function isFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < NEXT_TO_NOTHING;
  } catch {
    return false;
  }
}

function describe(error: unknown, kind: StoreFailureKind, folder: StateFolder): string {
  const { database, locks, output, results, temporary } = folder;
  const { code, syscall, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === 'EEXIST' && syscall === 'mkdir') {
    return `${database} is not used: ${path} is a file, and a folder of that name is needed. Remove it.`;
  }
  if (code === 'SQLITE_READONLY_DBMOVED') {
    return `${database} was moved away while it was in use. The next pass uses the log that exists then.`;
  }
  // A folder beside the log, which is fine itself.
  const closed = syscall === 'access' ? [locks, output, results, temporary].find((each) => each === path) : undefined;
  return sentences[kind](closed ?? database, reasonOf(error));
}

/** Of a used up quota Node has nothing to say but a number; what nobody has foreseen is found by its place. */
function reasonOf(error: unknown): string {
  if (errorCode(error) === 'EDQUOT') return 'EDQUOT: the disk quota is exceeded';
  if (!(error instanceof Error)) return String(error);
  if (errorCode(error) !== '') return error.message;
  const place = error.stack?.split('\n').find((line) => /^\s+at /.test(line));
  return `${error}${place === undefined ? '' : ` ${place.trim()}`}`;
}

/** For what no error of SQLite's tells. */
export function storeUnavailable(
  kind: StoreFailureKind,
  path: string,
  reason: string,
  cause?: unknown,
): StoreUnavailable {
  return new StoreUnavailable(kind, sentences[kind](path, reason), { cause });
}
