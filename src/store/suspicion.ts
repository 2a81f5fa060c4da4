import { closeSync, existsSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { StateFolder } from '../config/state-folder.ts';

/**
 * Has the next pass look through the whole log, after an answer that only a damaged file gives. Never
 * throws: a log that cannot even be marked will be met again.
 */
export function markSuspect(folder: StateFolder): void {
  try {
    closeSync(openSync(markOf(folder), 'a', 0o600));
  } catch {}
}

export function isSuspect(folder: StateFolder): boolean {
  return existsSync(markOf(folder));
}

export function clearSuspicion(folder: StateFolder): void {
  rmSync(markOf(folder), { force: true });
}

function markOf({ path }: StateFolder): string {
  return join(path, 'activity.suspect');
}
