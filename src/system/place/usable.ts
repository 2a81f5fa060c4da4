import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createFallbackStateFolder, fallbackStateFoldersOf, trustedFallbacksOf } from './fallback.ts';
import { createStateFolder, demandAccess, listStateFolders, type StateFolder, stateFolderOf } from './state-folder.ts';

/**
 * The root's state folder, created and proved by writing to it; otherwise one of its fallbacks. An existing fallback
 * comes first, because another pass may be at work in it. Call it only after a failure: it costs a wait for the disk.
 *
 * @param unusable known reasons against some of these folders, by path
 * @throws {UsageError} if none can be written: then no script can run
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

/** Without this check a folder would be made where nobody ever looks. */
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

/** If the writer dies before it removes the folder, the next reconciliation finds and removes it by this prefix. */
export const TRY_PREFIX = 'try-';

/** Enough bytes that a file system has to find a new block for them. */
const TRIED_BYTES = 64 * 1024;

/** Files of a lock, a spool and a few scripts at a time: a file system may have no inodes left. */
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
