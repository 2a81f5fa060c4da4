import { lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createStateFolder, type StateFolder, stateFolderAt } from './state-folder.ts';

/**
 * Where a root's state goes when its `.runner/` cannot be written: a folder under the system's
 * temporary one. Knowing where makes nothing. It never holds a log: that would be a second truth.
 */
export function fallbackStateFolderOf(root: string): StateFolder {
  const hash = hashOf(realpathSync.native(root));
  return stateFolderAt(join(tmpdir(), `folder-runner-${process.getuid?.() ?? 0}-${hash}`));
}

/** FNV-1a. It tells one user's roots apart, and is asked for at every start: SHA-256 would take a millisecond. */
function hashOf(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}

/**
 * Makes it, for this user alone.
 *
 * @throws {UsageError} when somebody else may have made it, or something else by its name
 */
export function createFallbackStateFolder(state: StateFolder): void {
  makeFolder(state.path);
  const reason = reasonAgainstPrivateFolder(state.path);
  if (reason !== null) {
    throw new UsageError(
      `${state.path} is not used: ${reason}. Remove it, or set TMPDIR to a folder that only you can write.`,
    );
  }
  createStateFolder(state);
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Why a folder in a place where others write cannot be trusted; null: it is this user's alone. */
export function reasonAgainstPrivateFolder(path: string): string | null {
  // Names under /tmp can be guessed: another user can have put a symlink or a folder there first.
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return 'it is no folder';
  if (!isOurs(stats)) return `it belongs to another user (uid ${stats.uid})`;
  if ((stats.mode & 0o077) !== 0) return `others have access to it (mode ${octal(stats.mode)})`;
  return reasonAgainstParent(dirname(path));
}

/** Whoever can rename a folder can put another one in its place. */
function reasonAgainstParent(path: string): string | null {
  const stats = statSync(path);
  if (!isOurs(stats) && stats.uid !== 0) return `${path} belongs to another user (uid ${stats.uid})`;
  const isSticky = (stats.mode & 0o1000) !== 0;
  if (isSticky || (stats.mode & 0o022) === 0) return null;
  return `others can replace files in ${path} (mode ${octal(stats.mode)})`;
}

function isOurs({ uid }: { readonly uid: number }): boolean {
  return uid === process.getuid?.();
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}
