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
    if (enterLock(entry)) return holdLock(entry, onCompromised, timing);
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
  removeAbandoned(path, (file) => file.holder !== null && !isHolderAlive(file, readNow, usualTiming));
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

/** After an attempt that failed, though the lock is still there. */
const RETRY_MS = 1_000;

/**
 * Its file is as fresh as can be when the lock is taken: until it is to be refreshed, nothing is loaded and nothing
 * started for that. Most passes have ended by then.
 */
function keepFresh(entry: LockEntry, onCompromised: (reason: string) => void, timing: LockTiming): () => Promise<void> {
  // By a clock that nobody sets.
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
 * The library refreshes the lock and notices its loss. It is not asked who gets the lock: two can
 * take a stale one from it (https://github.com/moxystudio/node-proper-lockfile/issues/121).
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

/*
 * A lock is a folder with its holder's file in it. The folder is made elsewhere, file and all, and
 * renamed into place, which succeeds only where there is no other, or an empty one: of any number of
 * processes one gets in, on NFS too. Whoever removes something from it names whose it is, by a token
 * that is never used twice, and so cannot hit a holder that got in meanwhile.
 */

/** One attempt to get into a lock. */
interface LockEntry {
  /** `.runner/locks/hourly.lock` */
  readonly path: string;
  /** Never used twice. */
  readonly token: string;
  readonly self: LockHolder;
}

interface LockContent {
  readonly holders: readonly (HolderFile & { readonly fileName: string })[];
  /** What a dead holder, a backup program or NFS has left there. */
  readonly otherNames: readonly string[];
}

const holderPath = ({ path, token }: LockEntry): string => join(path, `${token}.json`);
const heartbeatPath = ({ path, token }: LockEntry): string => join(path, `${token}.lock`);
const preparedPath = ({ path, token }: LockEntry): string => `${path}.${token}.new`;

/** Gets into the lock, unless somebody's file is in it, be he dead or alive. */
function enterLock(entry: LockEntry): boolean {
  mkdirSync(preparedPath(entry), { mode: 0o700 });
  try {
    const file = join(preparedPath(entry), `${entry.token}.json`);
    writeFileSync(file, JSON.stringify(entry.self), { mode: 0o600 });
    renameSync(preparedPath(entry), entry.path);
    return true;
  } catch (error) {
    // On NFS the answer to a rename can get lost that was done.
    if (readHolderFile(holderPath(entry)) !== null) return true;
    rmSync(preparedPath(entry), { recursive: true, force: true });
    if (isOvertaken(error)) return false;
    throw error;
  }
}

/** What is in the lock. */
function readLock(path: string): LockContent {
  const names = listNames(path);
  const holders = names.filter(isHolderFile).flatMap((fileName) => {
    const file = readHolderFile(join(path, fileName));
    return file === null ? [] : [{ ...file, fileName }];
  });
  return { holders, otherNames: names.filter((name) => !isHolderFile(name)) };
}

/** Removes what was found in the lock; dead holders are noted for who gets in next. */
function clearLock(path: string, { holders, otherNames }: LockContent): void {
  unlessOvertaken(() => removeUnlessFolder(path));
  for (const name of otherNames) rmSync(join(path, name), { recursive: true, force: true });
  for (const { fileName } of holders) {
    unlessOvertaken(() => renameSync(join(path, fileName), `${path}.${fileName}.dead`));
  }
}

/** Gives the lock back, whatever else has got into it meanwhile. */
function leaveLock(entry: LockEntry): void {
  rmSync(heartbeatPath(entry), { recursive: true, force: true });
  rmSync(holderPath(entry), { force: true });
  const content = readLock(entry.path);
  if (content.holders.length === 0) removeLock(entry.path, content);
}

/** Removes the lock with all that was found in it, unless somebody has got in meanwhile. */
function removeLock(path: string, content: LockContent): void {
  clearLock(path, content);
  unlessOvertaken(() => rmdirSync(path));
}

/** The dead holders that were noted, each told to one who asks. */
function collectDeadHolders(path: string): HolderFile[] {
  return listBeside(path, '.dead').flatMap(takeNote);
}

/**
 * What was prepared to get into the lock. Only for who is in it: of one that still tries, the folder
 * could be renamed into place just when its file has been taken out.
 */
function removePrepared(path: string): void {
  for (const prepared of listBeside(path, '.new')) removeIfPossible(prepared);
}

/** The same, by anybody: what the dead have prepared. `isDead` judges by its holder's file. */
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

/** Of several that read a note one removes it. */
function takeNote(path: string): HolderFile[] {
  const file = readHolderFile(path);
  let isOurs = false;
  unlessOvertaken(() => {
    unlinkSync(path);
    isOurs = true;
  });
  return isOurs && file !== null ? [file] : [];
}

/** What time the file system has: on a network home, the server's. */
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
    // Who only reads may not be allowed to write here.
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

/** A link is none, whatever it points to: that is nobody's business here. */
const isFolder = (path: string): boolean => lstatSync(path).isDirectory();

function unlessOvertaken(remove: () => void): void {
  try {
    remove();
  } catch (error) {
    if (!isOvertaken(error)) throw error;
  }
}

/** Somebody else got in, or has removed the same; ENOTDIR: a file lies in the lock's place. */
function isOvertaken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code ?? '';
  return ['ENOTEMPTY', 'EEXIST', 'ENOENT', 'ENOTDIR', 'ESTALE'].includes(code);
}

function removeIfPossible(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Somebody is still writing in it, or it is not ours to remove.
  }
}

let tokens = 0;

/** A name that no process uses twice. Not from `node:crypto`, which a start would wait 5 ms for. */
function newToken(): string {
  tokens += 1;
  const random = Math.random().toString(36).slice(2, 12);
  return `${process.pid}-${Date.now().toString(36)}-${tokens}-${random}`;
}
