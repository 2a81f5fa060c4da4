import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Removes what is in a folder, as far as it can be; where it is a folder no more, it is made anew. */
export function emptyFolder(path: string): void {
  try {
    for (const name of readdirSync(path)) {
      rmSync(join(path, name), { recursive: true, force: true });
    }
  } catch {
    makeAnew(path);
  }
}

function makeAnew(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
    restoreParent(path);
    mkdirSync(path, { mode: 0o700 });
  } catch {}
}

/** No more than that: where all of a state folder is gone, none is to be made. */
function restoreParent(path: string): void {
  try {
    mkdirSync(dirname(path), { mode: 0o700 });
  } catch {}
}
