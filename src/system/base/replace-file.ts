import { closeSync, constants, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * Replaces a file that others may be reading: each reader gets the whole old one or the whole new one. The new file is
 * written beside the old one first, under an unpredictable name, and never through a link that somebody else has made.
 *
 * @param mode the mode of the file, independent of the umask
 * @throws the error of the file system; nothing is left behind then
 */
export function replaceFile(path: string, text: string, mode: number): void {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const fresh = join(dirname(path), `.${basename(path)}.${Math.random().toString(36).slice(2)}`);
  const file = openSync(fresh, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    try {
      writeFileSync(file, text);
      fchmodSync(file, mode);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
}
