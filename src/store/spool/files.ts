import { join } from 'node:path';
import { listNames } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';

/**
 * A spool file has one JSON object a line: the worker, its runs, and its end if it came to one. Times are epoch
 * milliseconds; readers ignore unknown keys, and call the file unreadable if a line lacks a known one.
 *
 * Raised when a reader of the version before would misunderstand what is written.
 */
export const SPOOL_VERSION = 2;

/** One file of the spool. */
export interface SpoolFile {
  readonly path: string;
  /** Its worker came to its end; else it may still be at work. */
  readonly isClosed: boolean;
}

const OPEN = '.part';
const CLOSED = '.jsonl';
const UNREADABLE = '.unreadable';

/** Names of spool files. A file of any other name has an unknown meaning, and is left alone. */
const spoolName = /^\d+-\d+-[a-z\d]+\.(?:part|jsonl)$/;

/** A path that sorts by time. After a clock was set back, two paths may be in the wrong order. */
export function newSpoolPath(
  { spool }: StateFolder,
  { startedAt, pid }: { readonly startedAt: number; readonly pid: number },
): string {
  const time = String(startedAt).padStart(13, '0');
  const random = Math.random().toString(36).slice(2, 10);
  return join(spool, `${time}-${pid}-${random}${OPEN}`);
}

/** The path of a spool file after its worker has ended. */
export function closedPath(path: string): string {
  return path.slice(0, -OPEN.length) + CLOSED;
}

/** The path of a spool file that could not be read. */
export function unreadablePath(path: string): string {
  return path + UNREADABLE;
}

/** The spool's files, oldest first. */
export function listSpoolFiles({ spool }: StateFolder): SpoolFile[] {
  return listNames(spool)
    .filter((name) => spoolName.test(name))
    .toSorted()
    .map((name) => ({ path: join(spool, name), isClosed: name.endsWith(CLOSED) }));
}

/** Whether there may be something to take in. Asked at every start; a stray file in the folder is none of the spool's. */
export function hasSpool(state: StateFolder): boolean {
  try {
    return listSpoolFiles(state).length > 0;
  } catch {
    // An unreadable folder has no files that could be replayed.
    return false;
  }
}

/** Names of files that were set aside: a person has to look at them. */
export function listUnreadableSpoolFiles({ spool }: StateFolder): string[] {
  return listNames(spool).filter((name) => name.endsWith(UNREADABLE));
}
