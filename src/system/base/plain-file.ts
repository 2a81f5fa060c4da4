import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

/**
 * Opens a file for reading. Without `O_NONBLOCK` a named pipe in its place would block the process for ever.
 *
 * @throws the error of the file system, or one that says that the path is a pipe or a device
 */
export function openPlainFile(path: string, access = constants.O_RDONLY): number {
  const fd = openSync(path, access | constants.O_NONBLOCK);
  if (!isSpecial(fstatSync(fd))) return fd;
  closeSync(fd);
  throw new Error(describeSpecial(path));
}

/** Largest file to read: all files that the runner writes and reads are smaller. A result is JSON of at most 1 MB. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Reads a whole file; refuses one that is too large to be what it should be. */
export function readPlainFile(path: string, encoding: BufferEncoding = 'utf8'): string {
  const fd = openPlainFile(path);
  try {
    const { size } = fstatSync(fd);
    if (size > MOST_BYTES) throw new Error(`${path} has ${size} bytes, and at most ${MOST_BYTES} are read of it.`);
    return readFileSync(fd, encoding);
  } finally {
    closeSync(fd);
  }
}

/** A folder is not special: opening it fails at once. */
export function isSpecial(stats: Stats): boolean {
  return !stats.isFile() && !stats.isDirectory();
}

export function describeSpecial(path: string): string {
  return `${path} is a named pipe, a socket or a device; a file is needed there. Remove it.`;
}

/**
 * Replaces a file that others may be reading: each reader gets the whole old one or the whole new one. The new file is
 * written beside the old one first, under an unpredictable name, and never through a link that somebody else has made.
 *
 * @param mode the mode of the file, independent of the umask
 * @throws the error of the file system; nothing is left behind then
 */
export function replaceFile(path: string, content: string | Uint8Array, mode: number): void {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;
  const fresh = join(dirname(path), `.${basename(path)}.${Math.random().toString(36).slice(2)}`);
  const file = openSync(fresh, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    try {
      writeFileSync(file, content);
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
