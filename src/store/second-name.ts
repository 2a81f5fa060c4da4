import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { StateFolder } from '../config/state-folder.ts';

/** What a new log is called until it is whole. */
export function unplacedLog({ path }: StateFolder): string {
  return join(path, 'activity.new');
}

/** Whoever made the log may have died right after it got its name, and left it the one before as well. */
export function removeSecondName(folder: StateFolder): void {
  if (hasSecondName(folder)) rmSync(unplacedLog(folder), { force: true });
}

export function hasSecondName(folder: StateFolder): boolean {
  const second = inodeOf(unplacedLog(folder));
  return second !== null && second === inodeOf(folder.database);
}

function inodeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? null;
}
