import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import type { StateFolder } from '../place/state-folder.ts';
import { closedPath, newSpoolPath } from './files.ts';
import {
  SPOOL_VERSION,
  type SpoolEntry,
  type SpoolFinish,
  type SpoolingWorker,
  type SpoolRecord,
} from './format.ts';

/** A worker's spool file, open for adding to. */
export interface SpoolWriter {
  /**
   * Once it returns, the record survives a power loss.
   *
   * @throws {SpoolError} when it could not be written; the file holds what it held before, and the
   *   same record may be tried again
   */
  append(entry: SpoolEntry): void;
  /**
   * The file's end: from now on any worker that has the log takes it in.
   *
   * @throws {SpoolError} when the last line could not be written; the file is handed over all the same
   */
  close(finish: Omit<SpoolFinish, 'type'>): void;
}

/** A record that is not on the disk; `code` is the file system's: `ENOSPC` … */
class SpoolError extends Error {
  override readonly name = 'SpoolError';
  readonly code: string | undefined;

  constructor(path: string, cause: unknown) {
    const { code, message } = cause as NodeJS.ErrnoException;
    super(`${path} cannot be written: ${message}`, { cause });
    this.code = code;
  }
}

/** Tells one run from every other; also the name of its files, as the log has no number for it. */
export function newSpoolId(): string {
  return randomUUID();
}

/**
 * Makes the worker's spool file, with its first line on the disk.
 *
 * @throws {SpoolError} when it cannot be made; nothing is left then
 */
export function createSpoolWriter(state: StateFolder, worker: SpoolingWorker): SpoolWriter {
  const path = newSpoolPath(state, worker);
  const fd = orSpoolError(path, () => createFile(state.spool, path));
  const lines = createLineFile(path, fd);
  try {
    lines.append({ type: 'worker', version: SPOOL_VERSION, spoolId: newSpoolId(), ...worker });
    orSpoolError(path, () => syncFolder(state.spool));
  } catch (error) {
    closeSync(fd);
    unlinkSync(path);
    throw error;
  }
  return {
    append: (entry) => lines.append(entry),
    close: (finish) => {
      try {
        lines.append({ type: 'finished', ...finish });
      } finally {
        closeSync(fd);
        orSpoolError(path, () => handOver(path, state.spool));
      }
    },
  };
}

function createFile(folder: string, path: string): number {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return openSync(path, 'wx', 0o600);
}

function handOver(path: string, folder: string): void {
  renameSync(path, closedPath(path));
  syncFolder(folder);
}

/** Without it a power loss could leave the file's bytes on the disk, and no name for them. */
function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Adds whole lines, or nothing: each is written behind the last one that is known to be on the disk. */
function createLineFile(path: string, fd: number) {
  let length = 0;
  let isTorn = false;
  const cut = (): void => {
    ftruncateSync(fd, length);
    isTorn = false;
  };
  return {
    append(record: SpoolRecord): void {
      const line = Buffer.from(`${JSON.stringify(record)}\n`);
      orSpoolError(path, () => {
        if (isTorn) cut();
        isTorn = true;
        try {
          writeWhole(fd, line, length);
          fsyncSync(fd);
        } catch (error) {
          ignoreFailure(cut);
          throw error;
        }
        isTorn = false;
        length += line.length;
      });
    },
  };
}

/** A disk that fills up takes a part first, and complains of the rest. */
function writeWhole(fd: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written, bytes.length - written, position + written);
  }
}

/** The half line is then cut off before the next one is written, or dropped by whoever reads it. */
function ignoreFailure(work: () => void): void {
  try {
    work();
  } catch {}
}

function orSpoolError<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new SpoolError(path, error);
  }
}
