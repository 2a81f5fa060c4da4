import { existsSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listNames } from '../config/list-names.ts';
import { type StateFolder, stateFolderOf } from '../config/state-folder.ts';

const DESCRIPTORS = '/proc/self/fd';

/**
 * Where the root is by now whose log this process has open, if it was moved as a whole: who looks for
 * what ran will look there.
 *
 * @returns null: it was not moved, or nobody can tell where it is
 */
export function findMovedRoot({ database }: StateFolder): string | null {
  const moved = listNames(DESCRIPTORS).map(readTarget).find(isLogOfRoot);
  return moved === undefined || isSameFile(moved, database) ? null : rootOf(moved);
}

const isLogOfRoot = (path: string): boolean =>
  path === stateFolderOf(rootOf(path)).database &&
  existsSync(path) &&
  existsSync(join(rootOf(path), 'jobs'));

const rootOf = (database: string): string => dirname(dirname(database));

/** '' of what has no name: of the descriptor by which the folder itself was read, for one. */
function readTarget(fd: string): string {
  try {
    return readlinkSync(join(DESCRIPTORS, fd));
  } catch {
    return '';
  }
}

function isSameFile(one: string, other: string): boolean {
  const [first, second] = [one, other].map((path) => statSync(path, { throwIfNoEntry: false }));
  return first?.ino === second?.ino && first?.dev === second?.dev;
}
