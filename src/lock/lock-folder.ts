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
import { newToken } from './new-token.ts';

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
  if (content.holders.length === 0) removeLock(entry.path, content);
}

/** Removes the lock with all that was found in it, unless somebody has got in meanwhile. */
export function removeLock(path: string, content: LockContent): void {
  clearLock(path, content);
  unlessOvertaken(() => rmdirSync(path));
}

/** The dead holders that were noted, each told to one who asks. */
export function collectDeadHolders(path: string): HolderFile[] {
  return listBeside(path, '.dead').flatMap(takeNote);
}

/**
 * What was prepared to get into the lock. Only for who is in it: of one that still tries, the folder
 * could be renamed into place just when its file has been taken out.
 */
export function removePrepared(path: string): void {
  for (const prepared of listBeside(path, '.new')) removeIfPossible(prepared);
}

/** The same, by anybody: what the dead have prepared. `isDead` judges by its holder's file. */
export function removeAbandoned(path: string, isDead: (file: HolderFile) => boolean): void {
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
export function readFileSystemTime(path: string): number {
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
