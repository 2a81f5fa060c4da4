import { chmodSync, lstatSync, readdirSync, rmSync } from 'node:fs';
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
