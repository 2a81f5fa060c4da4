import {
  closeSync,
  fstatSync,
  lstatSync,
  mkdir,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdir,
  rmdirSync,
  rmSync,
  stat,
  unlinkSync,
  utimes,
  writeFile,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../base/errors.ts';
import { EXEC, isExecName } from '../base/exec-name.ts';
import { isSameProcess, type ProcessIdentity } from '../process/identity.ts';
import {
  type HolderFile,
  isHolderAlive,
  type LockHolder,
  type LockTiming,
  readHolderFile,
  usualTiming,
} from './holder.ts';

/** A lock that is held. */
export interface LockFile {
  /** Dead holders from whom the lock was taken over; each is reported once. */
  readonly takenOverFrom: readonly HolderFile[];
  /** Never throws: the work is done, and the next holder clears leftovers away. */
  release(): Promise<void>;
}

/** A failed attempt means that another process got in and out again, or left something to clear away. */
const ATTEMPTS = 100;

/**
 * Takes the lock `<name>.lock` in the folder. It needs no log: of all processes that try, on any host, one gets it. It
 * never waits.
 *
 * @param onCompromised called at most once, when the lock is lost while it is held
 * @returns the holder if a process that may be alive holds the lock
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
    if (enterLock(entry)) return holdLock(entry, onCompromised, timing);
    const content = readLock(path);
    const living = findLiving(path, content, timing);
    if (living !== null) return living;
    clearLock(path, content);
  }
  throw new Error(`${path} can be neither taken nor cleared away.`);
}

/**
 * Removes what dead holders have left of a lock, without ever holding it: a process that takes the lock at this moment
 * is not refused.
 *
 * @returns the dead holders; each is reported once
 */
export function clearDeadLock(folder: string, name: string): readonly HolderFile[] {
  const path = lockPath(folder, name);
  const content = readLock(path);
  if (findLiving(path, content, usualTiming) !== null) return [];
  removeLock(path, content);
  const readNow = () => readFileSystemTime(path);
  // A folder without a holder is being written just now, or was cut off; then the next holder clears it away.
  removeAbandoned(path, (file) => file.holder !== null && !isHolderAlive(file, readNow, usualTiming));
  return collectDeadHolders(path);
}

/** The holder of a lock by its file alone: without the log, nothing else tells about a worker. */
export function findLockHolder(folder: string, name: string): LockHolder | null {
  const path = lockPath(folder, name);
  return findLiving(path, readLock(path), usualTiming);
}

/** Whether this very process holds the lock and may be alive; for a process that cannot be seen from here. */
export function isLockHeldBy(folder: string, name: string, process: ProcessIdentity): boolean {
  const path = lockPath(folder, name);
  const living = findLiving(path, readLock(path), usualTiming);
  return living !== null && isSameProcess(living, process);
}

function findLiving(path: string, { holders }: LockContent, timing: LockTiming): LockHolder | null {
  const readNow = () => readFileSystemTime(path);
  return holders.find((file) => isHolderAlive(file, readNow, timing))?.holder ?? null;
}

function holdLock(entry: LockEntry, onCompromised: (reason: string) => void, timing: LockTiming): LockFile {
  try {
    removePrepared(entry.path);
    const takenOverFrom = collectDeadHolders(entry.path);
    const stop = keepFresh(entry, onCompromised, timing);
    return { takenOverFrom, release: () => releaseLock(entry, stop) };
  } catch (error) {
    leaveLock(entry);
    throw error;
  }
}

/** Pause after a failed attempt, if the lock is still there. */
const RETRY_MS = 1_000;

/**
 * The file is fresh when the lock is taken, so nothing is loaded or started before its first refresh is due. Most
 * passes have ended by then.
 */
function keepFresh(entry: LockEntry, onCompromised: (reason: string) => void, timing: LockTiming): () => Promise<void> {
  // A clock that nobody can set.
  const takenAtS = process.uptime();
  let isReleased = false;
  let refreshing: Promise<(() => Promise<void>) | null> | null = null;
  const begin = async (): Promise<(() => Promise<void>) | null> => {
    try {
      return await startRefreshing(entry, onCompromised, timing);
    } catch (error) {
      if (isReleased) return null;
      const isStale = (process.uptime() - takenAtS) * 1000 > timing.staleMs;
      if (errorCode(error) === 'ENOENT' || isStale) onCompromised((error as Error).message);
      else timer = beginIn(RETRY_MS);
      return null;
    }
  };
  const beginIn = (ms: number): NodeJS.Timeout =>
    setTimeout(() => {
      refreshing = begin();
    }, ms).unref();
  let timer = beginIn(timing.refreshMs);
  return async () => {
    isReleased = true;
    clearTimeout(timer);
    const stop = await refreshing;
    await stop?.();
  };
}

/**
 * The library refreshes the lock and notices its loss. It does not decide who gets the lock: two processes can take a
 * stale one from it (https://github.com/moxystudio/node-proper-lockfile/issues/121).
 */
async function startRefreshing(
  entry: LockEntry,
  onCompromised: (reason: string) => void,
  { refreshMs, staleMs }: LockTiming,
): Promise<() => Promise<void>> {
  const { default: lockfile } = await import('proper-lockfile');
  return await lockfile.lock(entry.path, {
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
 * The library sets times by this host's clock; a write sets the time of the file system, which all hosts share. The
 * write puts the same bytes in the same place, so a concurrent reader misses nothing.
 */
function fileSystemThatTouches(entry: LockEntry) {
  const refresh = (path: string, at: Date, mtime: Date, done: (error: unknown) => void): void => {
    writeFile(holderPath(entry), JSON.stringify(entry.self), { flag: 'r+' }, (error) => {
      if (error?.code === 'ENOENT') done(error);
      // A full disk costs nobody the lock.
      else utimes(path, at, mtime, done);
    });
  };
  return { mkdir, rmdir, rmdirSync, stat, utimes: refresh };
}

async function releaseLock(entry: LockEntry, stopRefreshing: () => Promise<void>): Promise<void> {
  try {
    await stopRefreshing();
  } catch {
    // The lock was lost, which is reported already, or somebody has removed it.
  }
  try {
    leaveLock(entry);
  } catch {
    // Another program puts files there at this moment, or the disk has become read-only.
  }
}

const lockPath = (folder: string, name: string): string => join(folder, `${fileNameOf(name)}.lock`);

/** The lock of `exec/backup` is `_exec_backup.lock`. No tier's name begins with `_`. */
function fileNameOf(name: string): string {
  return isExecName(name) ? `_${EXEC}_${name.slice(EXEC.length + 1)}` : name;
}

/** The name of the lock that has this file, without its `.lock`. */
export function lockNameOf(file: string): string {
  return file.startsWith(`_${EXEC}_`) ? `${EXEC}/${file.slice(EXEC.length + 2)}` : file;
}

/*
 * A lock is a folder that contains its holder's file. The folder is made elsewhere, with its file, and renamed into
 * place. The rename succeeds only if the place is empty or holds an empty folder, so one process gets in, on NFS too. A
 * process that removes a file from the lock names the file's owner by a token that is never used twice, so it cannot
 * hit a holder that got in meanwhile.
 */

/** One attempt to get into a lock. */
interface LockEntry {
  /** `.runner/locks/hourly.lock` */
  readonly path: string;
  /** Unique for each attempt. */
  readonly token: string;
  readonly self: LockHolder;
}

interface LockContent {
  readonly holders: readonly (HolderFile & { readonly fileName: string })[];
  /** Leftovers of a dead holder, a backup program or NFS. */
  readonly otherNames: readonly string[];
}

const holderPath = ({ path, token }: LockEntry): string => join(path, `${token}.json`);
const heartbeatPath = ({ path, token }: LockEntry): string => join(path, `${token}.lock`);
const preparedPath = ({ path, token }: LockEntry): string => `${path}.${token}.new`;

/** Gets into the lock, unless it contains the file of a holder, dead or alive. */
function enterLock(entry: LockEntry): boolean {
  mkdirSync(preparedPath(entry), { mode: 0o700 });
  try {
    const file = join(preparedPath(entry), `${entry.token}.json`);
    writeFileSync(file, JSON.stringify(entry.self), { mode: 0o600 });
    renameSync(preparedPath(entry), entry.path);
    return true;
  } catch (error) {
    // On NFS the answer to a successful rename can get lost.
    if (readHolderFile(holderPath(entry)) !== null) return true;
    rmSync(preparedPath(entry), { recursive: true, force: true });
    if (isOvertaken(error)) return false;
    throw error;
  }
}

/** Reads what is in the lock. */
function readLock(path: string): LockContent {
  const names = listNames(path);
  const holders = names.filter(isHolderFile).flatMap((fileName) => {
    const file = readHolderFile(join(path, fileName));
    return file === null ? [] : [{ ...file, fileName }];
  });
  return { holders, otherNames: names.filter((name) => !isHolderFile(name)) };
}

/** Removes what was found in the lock; keeps a note of each dead holder for the next process that gets in. */
function clearLock(path: string, { holders, otherNames }: LockContent): void {
  unlessOvertaken(() => removeUnlessFolder(path));
  for (const name of otherNames) rmSync(join(path, name), { recursive: true, force: true });
  for (const { fileName } of holders) {
    unlessOvertaken(() => renameSync(join(path, fileName), `${path}.${fileName}.dead`));
  }
}

/** Gives the lock back, even if something else has got into it meanwhile. */
function leaveLock(entry: LockEntry): void {
  rmSync(heartbeatPath(entry), { recursive: true, force: true });
  rmSync(holderPath(entry), { force: true });
  const content = readLock(entry.path);
  if (content.holders.length === 0) removeLock(entry.path, content);
}

/** Removes the lock with everything that was found in it, unless somebody has got in meanwhile. */
function removeLock(path: string, content: LockContent): void {
  clearLock(path, content);
  unlessOvertaken(() => rmdirSync(path));
}

/** The noted dead holders; each is reported to one caller only. */
function collectDeadHolders(path: string): HolderFile[] {
  return listBeside(path, '.dead').flatMap(takeNote);
}

/**
 * Removes folders that were prepared to get into the lock. Only the holder may do so: without a holder, such a folder
 * could be renamed into place just when its file has been removed.
 */
function removePrepared(path: string): void {
  for (const prepared of listBeside(path, '.new')) removeIfPossible(prepared);
}

/** Removes folders that dead processes have prepared; any process may do so. `isDead` judges by the holder's file. */
function removeAbandoned(path: string, isDead: (file: HolderFile) => boolean): void {
  for (const prepared of listBeside(path, '.new')) {
    const [file] = listNames(prepared)
      .filter(isHolderFile)
      .flatMap((name) => readHolderFile(join(prepared, name)) ?? []);
    if (file !== undefined && isDead(file)) removeIfPossible(prepared);
  }
}

function listBeside(path: string, ending: string): string[] {
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(`${basename(path)}.`) && name.endsWith(ending))
    .map((name) => join(dirname(path), name));
}

/** If several processes read a note, only the one that removes it returns it. */
function takeNote(path: string): HolderFile[] {
  const file = readHolderFile(path);
  let isOurs = false;
  unlessOvertaken(() => {
    unlinkSync(path);
    isOurs = true;
  });
  return isOurs && file !== null ? [file] : [];
}

/** The time of the file system; on a network home, the server's time. */
function readFileSystemTime(path: string): number {
  const file = `${path}.${newToken()}.new`;
  try {
    const probe = openSync(file, 'wx', 0o600);
    try {
      return Math.round(fstatSync(probe).mtimeMs);
    } finally {
      closeSync(probe);
      removeIfPossible(file);
    }
  } catch {
    // A process that only reads may lack the right to write here.
    return Date.now();
  }
}

const isHolderFile = (name: string): boolean => name.endsWith('.json');

function listNames(path: string): string[] {
  try {
    return isFolder(path) ? readdirSync(path) : [];
  } catch (error) {
    if (isOvertaken(error)) return [];
    throw error;
  }
}

function removeUnlessFolder(path: string): void {
  if (!isFolder(path)) unlinkSync(path);
}

/** A link does not count as a folder; what it points to does not matter here. */
const isFolder = (path: string): boolean => lstatSync(path).isDirectory();

function unlessOvertaken(remove: () => void): void {
  try {
    remove();
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

/** Somebody else got in, or removed the same file. ENOTDIR: a file lies in the lock's place. */
function isOvertaken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return ['ENOTEMPTY', 'EEXIST', 'ENOENT', 'ENOTDIR', 'ESTALE'].includes(code);
}

function removeIfPossible(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Somebody is still writing in it, or this user may not remove it.
  }
}

let tokens = 0;

/** A name that no process uses twice. It does without `node:crypto`, which would delay a start by 5 ms. */
function newToken(): string {
  tokens += 1;
  const random = Math.random().toString(36).slice(2, 12);
  return `${process.pid}-${Date.now().toString(36)}-${tokens}-${random}`;
}
