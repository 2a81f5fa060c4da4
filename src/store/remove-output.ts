import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { StateFolder } from '../config/state-folder.ts';

/**
 * Removes kept output once its runs are in the log no more: a file without its row is clutter, a row
 * without its file is a lie. What cannot be removed is no more than clutter and keeps nobody from going on.
 */
export function removeOutput({ output }: StateFolder, files: readonly string[]): void {
  for (const file of files) {
    try {
      rmSync(join(output, file), { force: true });
    } catch {}
  }
}
