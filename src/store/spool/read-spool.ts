import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { checkLiveness } from '../../process/process-identity.ts';
import { NoRecord, parseRecord } from './parse-record.ts';
import { type Line, readLines } from './read-lines.ts';
import type { SpoolFile } from './spool-files.ts';
import type { SpoolRecord } from './spool-record.ts';

/** What cannot be read as a record; the rest of the file can. */
export interface NotUnderstood {
  readonly type: 'not-understood';
  readonly problem: string;
}

/** A last line that breaks off: nobody was told that it is there. */
export interface Torn {
  readonly type: 'torn';
}

export type SpoolLine = SpoolRecord | NotUnderstood | Torn;

/** The largest record, an output of 64 KB and a long stack with every character escaped, has 1 MB. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;

/**
 * What a spool file holds, line by line.
 *
 * @throws when it cannot be opened, or is somebody else's
 */
export function* readSpool(path: string): Generator<SpoolLine> {
  const fd = openOwnFile(path);
  try {
    let number = 0;
    for (const line of readLines(fd, MAX_LINE_BYTES)) {
      number += 1;
      yield readLine(line, number);
    }
  } finally {
    closeSync(fd);
  }
}

function readLine({ text, isWhole }: Line, number: number): SpoolLine {
  if (!isWhole) return { type: 'torn' };
  try {
    if (text === null) throw new NoRecord(`it is longer than ${MAX_LINE_BYTES} bytes`);
    const record = parseRecord(text);
    // The first line tells whose the others are.
    if ((record.type === 'worker') !== (number === 1)) throw new NoRecord(`it is a ${record.type}`);
    return record;
  } catch (error) {
    if (!(error instanceof NoRecord)) throw error;
    return { type: 'not-understood', problem: `line ${number} is no record: ${error.message}` };
  }
}

/** What another user put here could say anything; a named pipe would hold the reader up for ever. */
function openOwnFile(path: string): number {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stats = fstatSync(fd);
  const uid = process.getuid?.();
  const isOwn = stats.isFile() && (stats.uid === uid || uid === 0) && (stats.mode & 0o022) === 0;
  if (isOwn) return fd;
  closeSync(fd);
  throw new Error(`${path} is not this user's own file`);
}

/** Another host's worker cannot be seen from here; so long after its last word it has no more to say. */
const SILENT_MS = 7 * 24 * 60 * 60 * 1_000;

/** Of a file without a whole line, its worker died before it had said anything, or has just made it. */
const SPEECHLESS_MS = 60_000;

/** Whether nobody adds to the file any more. `at` is now, in epoch milliseconds. */
export function isReady({ path, isClosed }: SpoolFile, at: number): boolean {
  if (isClosed) return true;
  const first = readFirst(path);
  if (first === null || first.type === 'torn') return isSilent(path, at, SPEECHLESS_MS);
  const liveness = first.type === 'worker' ? checkLiveness(first.identity) : 'on-another-host';
  return liveness === 'dead' || (liveness === 'on-another-host' && isSilent(path, at, SILENT_MS));
}

function readFirst(path: string): SpoolLine | null {
  for (const line of readSpool(path)) return line;
  return null;
}

/** Either way: the clock may have been set back since. */
function isSilent(path: string, at: number, silentMs: number): boolean {
  return Math.abs(at - statSync(path).mtimeMs) > silentMs;
}
