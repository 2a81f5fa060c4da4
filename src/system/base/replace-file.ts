import { closeSync, constants, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * Writes a file that others may read meanwhile: whoever opens it gets the old one or the new one, whole. The new one is
 * made beside it first, under a name that nobody can foresee, and never through a link that somebody else has made.
 *
 * @param mode whatever the umask says
 * @throws what the file system says; nothing is left then
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
