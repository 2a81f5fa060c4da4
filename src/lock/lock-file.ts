import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import lockfile from 'proper-lockfile';
import { checkLiveness, type ProcessIdentity } from '../process/process-identity.ts';

/** Who holds a lock, as it is written beside it. */
export interface LockHolder extends ProcessIdentity {
  readonly since: number;
}

export interface LockFile {
  release(): Promise<void>;
}

/** Far above any pause of a throttled host; the dead are found by who they are, not by waiting. */
export const STALE_MS = 60_000;
const REFRESH_MS = 10_000;

/** Besides ELOCKED, what a stale lock answers that is a plain file, or a folder with files in it. */
const heldCodes: ReadonlySet<string | undefined> = new Set(['ELOCKED', 'ENOTEMPTY', 'ENOTDIR']);

/** Takes the lock file; the holder where it is held by a process that may be alive. */
export async function takeLockFile(
  folder: string,
  name: string,
  self: LockHolder,
  onCompromised: (reason: string) => void,
): Promise<LockFile | LockHolder> {
  const path = join(folder, name);
  try {
    return await acquire(path, self, onCompromised);
  } catch (error) {
    if (!heldCodes.has((error as NodeJS.ErrnoException).code)) throw error;
  }
  const holder = readHolder(path);
  if (holder !== null && checkLiveness(holder) !== 'dead') return holder;
  removeLeftover(path);
  return await acquire(path, self, onCompromised);
}

/** Whether somebody refreshes the lock: all that can be known of a holder on another host. */
export function isLockFileFresh(folder: string, name: string): boolean {
  const path = join(folder, name);
  return lockfile.checkSync(path, {
    lockfilePath: lockPath(path),
    realpath: false,
    stale: STALE_MS,
  });
}

async function acquire(
  path: string,
  self: LockHolder,
  onCompromised: (reason: string) => void,
): Promise<LockFile> {
  const release = await lockfile.lock(path, {
    lockfilePath: lockPath(path),
    realpath: false,
    stale: STALE_MS,
    update: REFRESH_MS,
    // The library's default throws from a timer, which would end the runner in the middle of a pass.
    onCompromised: (error) => onCompromised(error.message),
  });
  writeHolder(path, self);
  return { release: () => releaseLock(path, self, release) };
}

/** Throws nothing: what was to be done is done, and who comes next clears a dead one's leftovers. */
async function releaseLock(
  path: string,
  self: LockHolder,
  release: () => Promise<void>,
): Promise<void> {
  try {
    await release();
  } catch (error) {
    // A compromised lock is not ours any more; that was already reported.
    if ((error as NodeJS.ErrnoException).code !== 'ERELEASED') tryRemoveLeftover(path);
  }
  if (isSameHolder(readHolder(path), self)) rmSync(holderPath(path), { force: true });
}

function isSameHolder(one: LockHolder | null, other: LockHolder): boolean {
  return one !== null && isDeepStrictEqual(one, other);
}

/** The holder stands beside the lock: a file inside it would keep the library from removing it. */
function writeHolder(path: string, holder: LockHolder): void {
  const temporary = `${holderPath(path)}.${process.pid}`;
  writeFileSync(temporary, JSON.stringify(holder), { mode: 0o600 });
  renameSync(temporary, holderPath(path));
}

function readHolder(path: string): LockHolder | null {
  try {
    return JSON.parse(readFileSync(holderPath(path), 'utf8')) as LockHolder;
  } catch {
    // Killed between taking the lock and naming itself, or cut off by a full disk.
    return null;
  }
}

function tryRemoveLeftover(path: string): void {
  try {
    removeLeftover(path);
  } catch {
    // Files that another program puts there just now, or on NFS keeps open.
  }
}

/** Whatever lies there: a backup program or NFS may have left files in the lock's folder. */
function removeLeftover(path: string): void {
  rmSync(lockPath(path), { recursive: true, force: true });
}

const lockPath = (path: string): string => `${path}.lock`;
const holderPath = (path: string): string => `${path}.json`;
