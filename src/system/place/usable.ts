import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createFallbackStateFolder, fallbackStateFoldersOf, trustedFallbacksOf } from './fallback.ts';
import { createStateFolder, demandAccess, listStateFolders, type StateFolder, stateFolderOf } from './state-folder.ts';

/**
 * The root's state folder, made and really written to, else one of those that take its place: rather one that is
 * there, as another pass may be at work in it. For when something has failed already: it costs a wait for the disk.
 *
 * @param unusable what is known to speak against one of them, by its path
 * @throws {UsageError} when none can be written: then no script can be run
 */
export function usableStateFolder(root: string, unusable: Readonly<Record<string, string>> = {}): StateFolder {
  refuseWithoutRoot(root);
  const reasons: string[] = [];
  const isUsable = (state: StateFolder, create: typeof createStateFolder): boolean => {
    const reason = unusable[state.path] ?? reasonAgainst(state, create);
    if (reason !== null) reasons.push(`${state.path} (${reason})`);
    return reason === null;
  };
  const state = stateFolderOf(root);
  if (isUsable(state, createStateFolder)) return state;
  const known = new Set(trustedFallbacksOf(root).map(({ path }) => path));
  const fallbacks = fallbackStateFoldersOf(root).toSorted(
    (one, other) => Number(known.has(other.path)) - Number(known.has(one.path)),
  );
  const usable = fallbacks.find((each) => isUsable(each, createFallbackStateFolder));
  if (usable !== undefined) return usable;
  throw new UsageError(
    `No script can be run, as none of these folders can be written: ${reasons.join(', ')}. ` +
      'Make one of them writable, or set TMPDIR to a folder that only you can write.',
  );
}

/** Else a folder would be made where nobody ever looks for what is in it. */
function refuseWithoutRoot(root: string): void {
  if (existsSync(join(root, 'jobs'))) return;
  throw new UsageError(
    `${root} has no jobs folder any more: it was moved or removed meanwhile. ` +
      'Runs since then could not be recorded; call the runner at the new place.',
  );
}

function reasonAgainst(state: StateFolder, create: typeof createStateFolder): string | null {
  try {
    create(state);
    for (const path of listStateFolders(state)) demandAccess(path);
    tryWrite(state);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Should its writer die before it is removed, whoever reconciles next sees and removes it. */
export const TRY_PREFIX = 'try-';

/** So much that a file system has to find a new block for it. */
const TRIED_BYTES = 64 * 1024;

/** A lock, a spool, and what some scripts have at a time: a file system may have no more inodes. */
const TRIED_FILES = 16;

function tryWrite({ temporary }: StateFolder): void {
  const folder = mkdtempSync(join(temporary, TRY_PREFIX));
  try {
    for (let count = 1; count < TRIED_FILES; count += 1) {
      writeFileSync(join(folder, String(count)), '', { flag: 'wx', mode: 0o600 });
    }
    writeFileSync(join(folder, 'bytes'), Buffer.alloc(TRIED_BYTES, ' '), { flag: 'wx', mode: 0o600, flush: true });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
