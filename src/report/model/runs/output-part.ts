import { closeSync, fstatSync, readSync } from 'node:fs';
import type { LogView } from '../../../discovery/site.ts';
import { readMasked } from '../../../execution/result/output.ts';
import { runFilesOf } from '../../../execution/run-files.ts';
import { readNotes } from '../../../execution/secret-notes.ts';
import { type Masker, maskSecrets } from '../../../execution/secrets.ts';
import { omission } from '../../../system/base/text.ts';
import { openIfThere, readRunOutput } from './output.ts';
import { isStillRunning } from './run.ts';
import { type RunWithOutput, selectRun } from './runs.ts';

/** The output of a run since the last request. */
export interface OutputPart {
  readonly text: string;
  /** Number of bytes that the run has written so far: the start of the next request. */
  readonly next: number;
  /** The text stands for all that was shown before, too: that was too long, or the file was cut. */
  readonly isAnew: boolean;
  /** Nothing will follow. */
  readonly isOver: boolean;
}

/** A longer output is shown as its head and tail. */
const HALF_BYTES = 256 * 1024;
const MOST_BYTES = 2 * HALF_BYTES;

/**
 * The masked output of a run from this byte on; for a run that has ended, the part that is kept.
 *
 * @param from 0, or `next` of the last answer
 */
export async function readOutputFrom(log: LogView, run: RunWithOutput, from: number): Promise<OutputPart> {
  if (run.filesKey === null) return await readKept(log, run, from);
  // Asked before reading: what is written between the two would be missed the other way round.
  const isOver = !(await isStillRunning(log, run.id));
  const fd = openIfThere(runFilesOf(log.state, run.filesKey).output);
  if (fd === null) return await readWithoutFile(log, run, from, isOver);
  try {
    return readWritten({ fd, masker: maskSecrets([], readNotes(log.state)) }, from, isOver);
  } finally {
    closeSync(fd);
  }
}

/** It has ended since, or not begun to write. */
async function readWithoutFile(log: LogView, run: RunWithOutput, from: number, isOver: boolean): Promise<OutputPart> {
  const now = await selectRun(log, run.id);
  if (now !== null && now.filesKey === null) return await readKept(log, now, from);
  return { text: '', next: from, isAnew: false, isOver };
}

interface WrittenFile {
  readonly fd: number;
  readonly masker: Masker;
}

function readWritten(file: WrittenFile, from: number, isOver: boolean): OutputPart {
  const { size } = fstatSync(file.fd);
  const isCut = size < from;
  const safe = isOver ? size : findSafeEnd(file, size);
  // Once part of a line was shown, its rest follows.
  const end = isCut ? safe : Math.max(from, safe);
  const read = (start: number, until: number): string => readMasked(file, start, until - start);
  const isAnew = from === 0 || isCut || end - from > MOST_BYTES;
  if (!isAnew) return { text: read(from, end), next: end, isAnew, isOver };
  if (end <= MOST_BYTES) return { text: read(0, end), next: end, isAnew, isOver };
  const text = read(0, HALF_BYTES) + omission(end - MOST_BYTES) + read(end - HALF_BYTES, end);
  return { text, next: end, isAnew, isOver };
}

/** Until then what was written of a line stays back where it may be the beginning of a secret. */
const QUIET_MS = 1000;

const LINE_FEED = 0x0a;

/** Up to where the file can be shown although the next byte is not there yet. */
function findSafeEnd({ fd, masker }: WrittenFile, size: number): number {
  const last = readBytes(fd, Math.max(0, size - Math.max(masker.reach, 4)), size);
  const whole = size - countBegun(last);
  if (masker.reach === 0 || Date.now() - fstatSync(fd).mtimeMs > QUIET_MS) return whole;
  const line = last.lastIndexOf(LINE_FEED);
  return line === -1 ? size - last.length : size - last.length + line + 1;
}

/** How many bytes at the end are the beginning of a character. */
function countBegun(bytes: Buffer): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count += 1) {
    const byte = bytes[bytes.length - count] as number;
    // The first byte of a character says how many it has.
    if (byte >= 0xc0) return count < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? count : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

function readBytes(fd: number, start: number, end: number): Buffer {
  const bytes = Buffer.alloc(end - start);
  return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, start));
}

/** Masked already, and so perhaps of another length than what was written. */
async function readKept({ state }: LogView, run: RunWithOutput, from: number): Promise<OutputPart> {
  const { outputBytes } = run;
  if (from > 0 && from === outputBytes) return { text: '', next: from, isAnew: false, isOver: true };
  const { text, length } = await gatherEnds(readRunOutput(state, run, true));
  const next = outputBytes ?? Math.max(from, length);
  const bytes = Buffer.from(text);
  const isAsWritten = bytes.length === outputBytes && from <= bytes.length;
  if (from === 0 || !isAsWritten) return { text, next, isAnew: true, isOver: true };
  return { text: bytes.subarray(from).toString(), next, isAnew: false, isOver: true };
}

/** Head and tail of what is long. */
async function gatherEnds(pieces: AsyncIterable<string>): Promise<{ text: string; length: number }> {
  let head = '';
  let tail = '';
  let length = 0;
  for await (const piece of pieces) {
    length += piece.length;
    const room = Math.max(0, HALF_BYTES - head.length);
    head += piece.slice(0, room);
    tail = (tail + piece.slice(room)).slice(-HALF_BYTES);
  }
  const left = length - head.length - tail.length;
  return { text: head + (left > 0 ? omission(left) : '') + tail, length };
}
