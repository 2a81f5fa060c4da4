import { statSync } from 'node:fs';

/** By which a changed file is told from what it was; zeros: it is not there. */
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

/** Whether a file is still what it was. */
export function isUnchanged(before: FileState): boolean {
  const now = readFileState(before.path);
  return now.mtimeMs === before.mtimeMs && now.size === before.size && now.ino === before.ino;
}
