import { closeSync, existsSync, fsyncSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createFallbackStateFolder, fallbackStateFolderOf } from './fallback.ts';
import { createStateFolder, demandAccess, listStateFolders, type StateFolder, stateFolderOf } from './state-folder.ts';

/**
 * The root's state folder, made and really written to, else the one under the system's temporary
 * folder. For when something has failed already: it costs a wait for the disk.
 *
 * @throws {UsageError} when neither can be written: then no script can be run
 */
export function usableStateFolder(root: string): StateFolder {
  refuseWithoutRoot(root);
  const state = stateFolderOf(root);
  const reason = reasonAgainst(() => createStateFolder(state), state);
  if (reason === null) return state;
  const fallback = fallbackStateFolderOf(root);
  const other = reasonAgainst(() => createFallbackStateFolder(fallback), fallback);
  if (other === null) return fallback;
  throw new UsageError(
    `No script can be run: ${state.path} cannot be written (${reason}), ` +
      `nor can ${fallback.path} take its place (${other}). Make one of them writable.`,
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

function reasonAgainst(create: () => void, state: StateFolder): string | null {
  try {
    create();
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

function tryWrite({ temporary }: StateFolder): void {
  const path = join(temporary, `${TRY_PREFIX}${process.pid}`);
  const fd = openSync(path, 'wx', 0o600);
  // At once: who is killed meanwhile leaves nothing behind.
  unlinkSync(path);
  try {
    const bytes = Buffer.alloc(TRIED_BYTES, ' ');
    for (let written = 0; written < TRIED_BYTES; ) written += writeSync(fd, bytes, written);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
