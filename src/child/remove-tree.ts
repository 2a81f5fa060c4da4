import { chmodSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Also what its owner may not enter or change: a script has taken that right away, from us as well. */
export function removeTree(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    unlockFolders(path);
    rmSync(path, { recursive: true, force: true });
  }
}

/** Follows no link, which may lead anywhere. */
function unlockFolders(path: string): void {
  if (!lstatSync(path).isDirectory()) return;
  chmodSync(path, 0o700);
  for (const name of readdirSync(path)) unlockFolders(join(path, name));
}
