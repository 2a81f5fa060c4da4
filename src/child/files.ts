import { chmodSync, linkSync, lstatSync, readdirSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Removes a tree even if its owner may not enter or change it: a script may have taken that right away, from us as
 * well.
 */
export function removeTree(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    unlockFolders(path);
    rmSync(path, { recursive: true, force: true });
  }
}

/** Follows no link, because it may lead anywhere. */
function unlockFolders(path: string): void {
  if (!lstatSync(path).isDirectory()) return;
  chmodSync(path, 0o700);
  for (const name of readdirSync(path)) unlockFolders(join(path, name));
}

/**
 * Gives a file a second name, which may be in use by another file. If that fails, the file keeps its first name only.
 */
export function linkAnew(path: string, name: string): void {
  try {
    linkSync(path, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') replaceLink(path, name);
  }
}

function replaceLink(path: string, name: string): void {
  try {
    unlinkSync(name);
    linkSync(path, name);
  } catch {
    // The first name remains.
  }
}

/** The clock of file times advances in steps, and lags behind by at most one step. */
export const FILE_CLOCK_STEP_MS = 20;

/** Fields by which a change of a file is noticed; zeros: the file is missing. */
export interface FileState {
  readonly path: string;
  readonly mtimeMs: number;
  readonly size: number;
  readonly ino: number;
}

export function readFileState(path: string): FileState {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return { path, mtimeMs: 0, size: 0, ino: 0 };
  const { mtimeMs, size, ino } = stat;
  return { path, mtimeMs, size, ino };
}

/** Whether a file has not changed. */
export function isUnchanged(before: FileState): boolean {
  const now = readFileState(before.path);
  return now.mtimeMs === before.mtimeMs && now.size === before.size && now.ino === before.ino;
}
