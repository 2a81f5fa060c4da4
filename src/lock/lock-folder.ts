import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type HolderFile, type LockHolder, readHolderFile } from './lock-holder.ts';

/*
 * A lock is a folder with its holder's file in it. The folder is made elsewhere, file and all, and
 * renamed into place, which succeeds only where there is no other, or an empty one: of any number of
 * processes one gets in, on NFS too. Whoever removes something from it names whose it is, by a token
 * that is never used twice, and so cannot hit a holder that got in meanwhile.
 */

/** One attempt to get into a lock. */
export interface LockEntry {
  /** `.runner/locks/hourly.lock` */
  readonly path: string;
  /** Never used twice. */
  readonly token: string;
  readonly self: LockHolder;
}

export interface LockContent {
  readonly holders: readonly (HolderFile & { readonly fileName: string })[];
  /** What a dead holder, a backup program or NFS has left there. */
  readonly otherNames: readonly string[];
}

export const holderPath = ({ path, token }: LockEntry): string => join(path, `${token}.json`);
export const heartbeatPath = ({ path, token }: LockEntry): string => join(path, `${token}.lock`);
const preparedPath = ({ path, token }: LockEntry): string => `${path}.${token}.new`;

/** Gets into the lock, unless somebody's file is in it, be he dead or alive. */
export function enterLock(entry: LockEntry): boolean {
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
export function readLock(path: string): LockContent {
  const names = listNames(path);
  const holders = names.filter(isHolderFile).flatMap((fileName) => {
    const file = readHolderFile(join(path, fileName));
    return file === null ? [] : [{ ...file, fileName }];
  });
  return { holders, otherNames: names.filter((name) => !isHolderFile(name)) };
}

/** Removes what was found in the lock; dead holders are noted for who gets in next. */
export function clearLock(path: string, { holders, otherNames }: LockContent): void {
  unlessOvertaken(() => removeUnlessFolder(path));
  for (const name of otherNames) rmSync(join(path, name), { recursive: true, force: true });
  for (const { fileName } of holders) {
    unlessOvertaken(() => renameSync(join(path, fileName), `${path}.${fileName}.dead`));
  }
}

/** Gives the lock back, whatever else has got into it meanwhile. */
export function leaveLock(entry: LockEntry): void {
  rmSync(heartbeatPath(entry), { recursive: true, force: true });
  rmSync(holderPath(entry), { force: true });
  const content = readLock(entry.path);
  if (content.holders.length > 0) return;
  clearLock(entry.path, content);
  unlessOvertaken(() => rmdirSync(entry.path));
}

/** For who has got in: whom it takes the lock over from. What they left beside it is removed. */
export function collectDeadHolders(path: string): HolderFile[] {
  const beside = readdirSync(dirname(path)).filter((name) => name.startsWith(`${basename(path)}.`));
  const paths = beside.map((name) => join(dirname(path), name));
  // One that still tries, and loses this by it, tries again and finds the lock held.
  for (const prepared of paths.filter((each) => each.endsWith('.new'))) removeIfPossible(prepared);
  return paths
    .filter((each) => each.endsWith('.dead'))
    .flatMap((note) => {
      const file = readHolderFile(note);
      rmSync(note, { force: true });
      return file === null ? [] : [file];
    });
}

/** What time the file system has: on a network home, the server's. */
export function readFileSystemTime(path: string): number {
  const file = `${path}.${randomUUID()}.new`;
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
