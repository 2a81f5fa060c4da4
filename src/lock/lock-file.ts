import { mkdir, rmdir, rmdirSync, stat, utimes, writeFile } from 'node:fs';
import { join } from 'node:path';
import lockfile from 'proper-lockfile';
import { isSameProcess, type ProcessIdentity } from '../process/process-identity.ts';
import {
  clearLock,
  collectDeadHolders,
  enterLock,
  heartbeatPath,
  holderPath,
  type LockContent,
  type LockEntry,
  leaveLock,
  readFileSystemTime,
  readLock,
  removeAbandoned,
  removeLock,
  removePrepared,
} from './lock-folder.ts';
import {
  type HolderFile,
  isHolderAlive,
  type LockHolder,
  type LockTiming,
  usualTiming,
} from './lock-holder.ts';
import { newToken } from './new-token.ts';

/** A lock that is held. */
export interface LockFile {
  /** Dead holders that it was taken over from, each told once. */
  readonly takenOverFrom: readonly HolderFile[];
  /** Throws nothing: what was to be done is done, and who comes next clears leftovers away. */
  release(): Promise<void>;
}

/** Each failed one means that somebody else got in and out again, or left something to clear away. */
const ATTEMPTS = 100;

/**
 * Takes the lock `<name>.lock` in the folder. Safe without the log: of all processes that try, on
 * whatever host, one gets it. Never waits.
 *
 * @param onCompromised told, at most once, when the lock was lost while it was held
 * @returns the holder where it is held by a process that may be alive
 */
export async function takeLockFile(
  folder: string,
  name: string,
  self: LockHolder,
  onCompromised: (reason: string) => void,
  timing: LockTiming = usualTiming,
): Promise<LockFile | LockHolder> {
  const path = lockPath(folder, name);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const entry = { path, token: newToken(), self };
    if (enterLock(entry)) return await holdLock(entry, onCompromised, timing);
    const content = readLock(path);
    const living = findLiving(path, content, timing);
    if (living !== null) return living;
    clearLock(path, content);
  }
  throw new Error(`${path} can be neither taken nor cleared away.`);
}

/**
 * Removes what the dead have left of a lock, without ever holding it: who takes it just now is not
 * to be refused for that.
 *
 * @returns the dead holders, each told once
 */
export function clearDeadLock(folder: string, name: string): readonly HolderFile[] {
  const path = lockPath(folder, name);
  const content = readLock(path);
  if (findLiving(path, content, usualTiming) !== null) return [];
  removeLock(path, content);
  const readNow = () => readFileSystemTime(path);
  // Without a holder: it is just being written, or was cut off, which who gets in clears away.
  removeAbandoned(
    path,
    (file) => file.holder !== null && !isHolderAlive(file, readNow, usualTiming),
  );
  return collectDeadHolders(path);
}

/** Who has the lock, by its file alone: all that tells of a worker without the log. */
export function findLockHolder(folder: string, name: string): LockHolder | null {
  const path = lockPath(folder, name);
  return findLiving(path, readLock(path), usualTiming);
}

/** Whether that very process holds the lock and may be alive: for one that cannot be seen from here. */
export function isLockHeldBy(folder: string, name: string, process: ProcessIdentity): boolean {
  const path = lockPath(folder, name);
  const living = findLiving(path, readLock(path), usualTiming);
  return living !== null && isSameProcess(living, process);
}

function findLiving(path: string, { holders }: LockContent, timing: LockTiming): LockHolder | null {
  const readNow = () => readFileSystemTime(path);
  return holders.find((file) => isHolderAlive(file, readNow, timing))?.holder ?? null;
}

async function holdLock(
  entry: LockEntry,
  onCompromised: (reason: string) => void,
  timing: LockTiming,
): Promise<LockFile> {
  try {
    const stop = await keepFresh(entry, onCompromised, timing);
    removePrepared(entry.path);
    const takenOverFrom = collectDeadHolders(entry.path);
    return { takenOverFrom, release: () => releaseLock(entry, stop) };
  } catch (error) {
    leaveLock(entry);
    throw error;
  }
}

/**
 * The library refreshes the lock and notices its loss. It is not asked who gets the lock: two can
 * take a stale one from it (https://github.com/moxystudio/node-proper-lockfile/issues/121).
 */
function keepFresh(
  entry: LockEntry,
  onCompromised: (reason: string) => void,
  { refreshMs, staleMs }: LockTiming,
): Promise<() => Promise<void>> {
  return lockfile.lock(entry.path, {
    lockfilePath: heartbeatPath(entry),
    realpath: false,
    stale: staleMs,
    update: refreshMs,
    fs: fileSystemThatTouches(entry),
    // The library's default throws from a timer, which would end the runner in the middle of a pass.
    onCompromised: (error) => onCompromised(error.message),
  });
}

/**
 * The library sets times by this host's clock; writing sets the file system's, which all hosts
 * share. The bytes are the same, in the same place: who reads meanwhile misses nothing.
 */
function fileSystemThatTouches(entry: LockEntry) {
  const refresh = (path: string, at: Date, mtime: Date, done: (error: unknown) => void): void => {
    writeFile(holderPath(entry), JSON.stringify(entry.self), { flag: 'r+' }, (error) => {
      if (error?.code === 'ENOENT') done(error);
      // A full disk takes no lock from anybody.
      else utimes(path, at, mtime, done);
    });
  };
  return { mkdir, rmdir, rmdirSync, stat, utimes: refresh };
}

async function releaseLock(entry: LockEntry, stopRefreshing: () => Promise<void>): Promise<void> {
  try {
    await stopRefreshing();
  } catch {
    // Lost, which was already reported, or removed by somebody.
  }
  try {
    leaveLock(entry);
  } catch {
    // Files that another program puts there just now, or a disk that has become read-only.
  }
}

const lockPath = (folder: string, name: string): string => join(folder, `${name}.lock`);
