import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Removes what is in a folder; what cannot be removed, or is gone already, is left. */
export function emptyFolder(path: string): void {
  try {
    for (const name of readdirSync(path)) {
      rmSync(join(path, name), { recursive: true, force: true });
    }
  } catch {}
}
