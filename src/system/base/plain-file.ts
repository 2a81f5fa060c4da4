import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';

/**
 * Opens a file for reading. Without `O_NONBLOCK` a named pipe in its place would hold the process up for ever.
 *
 * @throws what the file system says, or that it is a pipe or a device
 */
export function openPlainFile(path: string, access = constants.O_RDONLY): number {
  const fd = openSync(path, access | constants.O_NONBLOCK);
  if (!isSpecial(fstatSync(fd))) return fd;
  closeSync(fd);
  throw new Error(describeSpecial(path));
}

/** No file that we write and read again is larger: a result is JSON of 1 MB at most. */
const MOST_BYTES = 16 * 1024 * 1024;

/** All of a file, unless it is so large that it cannot be what it should be. */
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

/** A folder is none: whoever opens it is told so at once. */
export function isSpecial(stats: Stats): boolean {
  return !stats.isFile() && !stats.isDirectory();
}

export function describeSpecial(path: string): string {
  return `${path} is a named pipe, a socket or a device; a file is needed there. Remove it.`;
}
