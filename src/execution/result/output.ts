import { createWriteStream, fstatSync, ftruncateSync, readSync, rmSync, statSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { isOfSystem } from '../../system/base/errors.ts';
import { omission } from '../../system/base/text.ts';
import { readStatFields } from '../../system/process/identity.ts';
import { listTree, signalGroup } from '../../system/process/tree.ts';
import { ifPossible, sizeOfOpen } from '../run-files.ts';
import type { Masker } from '../secrets.ts';
import type { OutputScan } from './demands.ts';
import { type KeptOutput, unreadOutput } from './result.ts';

/** An output file, and how much of it to keep. */
interface WrittenOutput {
  readonly path: string;
  /** Descriptor of the file, for reading: its path may no longer lead to it. */
  readonly fd: number;
  /** How many bytes were already cut out of it. */
  readonly droppedBytes: number;
  /** How many bytes of it stay on the disk at most. */
  readonly maxBytes: number;
  readonly masker: Masker;
}

/** How many bytes of a run's output its row holds. */
const ROW_BYTES = 64 * 1024;
const HALF_ROW_BYTES = ROW_BYTES / 2;

/**
 * Reads the part of a run's output that its row keeps; the rest goes to one compressed file. Both are masked. If the
 * file can no longer be read, its content is unknown, but the end of the run stays as it is.
 */
export async function keepOutput(output: WrittenOutput): Promise<KeptOutput> {
  const size = sizeOfOpen(output.fd);
  if (size === null) return unreadOutput;
  try {
    return await keep(output, size);
  } catch (error) {
    if (!isOfSystem(error)) throw error;
    return unreadOutput;
  }
}

async function keep(output: WrittenOutput, size: number): Promise<KeptOutput> {
  const { droppedBytes, path } = output;
  const bytes = size + droppedBytes;
  const isSmall = bytes <= ROW_BYTES;
  const text = isSmall ? readMasked(output, 0, size) : readEnds(output, size, bytes);
  const noFile = { text, bytes, file: null, fileBytes: null };
  if (isSmall) return { ...noFile, droppedBytes };
  const file = `${path}.gz`;
  try {
    // Most runs write little and never load streams or zlib.
    await compressOutput(output, size, file);
    return { text, bytes, droppedBytes, file: basename(file), fileBytes: statSync(file).size };
  } catch {
    // On a full disk only the row's part is kept, so that the end of the run is recorded in any case.
    ifPossible(() => rmSync(file, { force: true }));
    return { ...noFile, droppedBytes: bytes - Math.min(size, ROW_BYTES) };
  }
}

/** A script can shorten the file itself: `> /dev/stderr` does, as with any file. */
function readEnds(output: WrittenOutput, size: number, bytes: number): string {
  const head = readMasked(output, 0, Math.min(size, HALF_ROW_BYTES));
  const tailBytes = Math.min(size - Math.min(size, HALF_ROW_BYTES), HALF_ROW_BYTES);
  const tail = readMasked(output, size - tailBytes, tailBytes);
  return head + omission(bytes - Math.min(size, ROW_BYTES)) + tail;
}

/** Reads text that SQLite's own shell can show: without NUL, broken UTF-8 and secrets. */
export function readMasked(
  { fd, masker }: Pick<WrittenOutput, 'fd' | 'masker'>,
  position: number,
  length: number,
): string {
  const before = Math.min(position, masker.reach);
  const buffer = Buffer.alloc(before + length + masker.reach);
  const read = readSync(fd, buffer, 0, buffer.length, position - before);
  const masked = masker.part(buffer.subarray(0, read), before, Math.min(read, before + length));
  return masked.toString('utf8').replaceAll('\0', '\uFFFD');
}

const HEAD_BYTES = 8 * 1024;

/** The beginning of an output file; empty if it cannot be read. */
export function readHead(fd: number): string {
  const head = Buffer.alloc(HEAD_BYTES);
  let length = 0;
  ifPossible(() => {
    length = readSync(fd, head, 0, HEAD_BYTES, 0);
  });
  return head.toString('latin1', 0, length);
}

const PIECE_BYTES = 256 * 1024;

/** Compresses the first `size` bytes of an output file, masked, with a line in the place of dropped bytes. */
async function compressOutput(output: WrittenOutput, size: number, path: string): Promise<void> {
  const { createGzip } = await import('node:zlib');
  const { pipeline } = await import('node:stream/promises');
  // A file that lies there already may be a link, or a named pipe that nobody reads.
  rmSync(path, { force: true });
  await pipeline(readWithGap(output, size), createGzip(), createWriteStream(path, { flags: 'wx', mode: 0o600 }));
}

async function* readWithGap(output: WrittenOutput, size: number) {
  const { fd, droppedBytes, maxBytes, masker } = output;
  const isCut = droppedBytes > 0;
  const head = isCut ? Math.min(size, headBytes(maxBytes)) : size;
  if (head > 0) yield* masker.stream(readPieces(fd, 0, head), { end: isCut });
  if (isCut) yield Buffer.from(omission(droppedBytes));
  if (size > head) yield* masker.stream(readPieces(fd, head, size), { start: true });
}

/** Reads without a stream: a stream that is left early, as on a full disk, closes the file even without `autoClose`. */
export function* readPieces(fd: number, start: number, end: number): Generator<Buffer> {
  for (let position = start; position < end; ) {
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - position));
    const length = readSync(fd, piece, 0, piece.length, position);
    if (length === 0) return;
    yield piece.subarray(0, length);
    position += length;
  }
}

/** A fast writer fills gigabytes in a second; a quiet one needs fewer checks. */
const FASTEST_CHECK_MS = 5;
const SLOWEST_CHECK_MS = 100;
const CHUNK_BYTES = 256 * 1024;
const GAP_SAMPLE_BYTES = 4096;
/** The block size of `stat`, whatever the file system uses itself. */
const BLOCK_BYTES = 512;
/** How long to wait for a stopped group to stand still: a write in progress is finished first. */
const STANDSTILL_MS = 250;

/**
 * Lets the file grow to twice `maxBytes`, then cuts it back to `maxBytes`: its head and its tail. The script writes to
 * the file itself, so that its output outlives a dead runner.
 *
 * @param fd descriptor of the output file, for reading and writing
 * @param scan reads the part that is cut out before it is gone
 * @returns a function that ends this; it returns how many bytes were taken out of the file, all from behind its head
 */
export function guardOutput(fd: number, pid: number, maxBytes: number, scan: OutputScan | null = null): () => number {
  let droppedBytes = 0;
  let last: Cut = { size: 0, kept: 0, droppedBytes: 0 };
  let bytesBefore = 0;
  let delayMs = FASTEST_CHECK_MS;
  // A network home may go away meanwhile: the run goes on, and its output may grow without limit.
  const sizeNow = (): number => sizeOfOpen(fd) ?? 0;
  const cut = (): void => {
    last = whileStopped(pid, () => cutMiddle(fd, maxBytes, last, scan));
    droppedBytes += last.droppedBytes;
  };
  const check = (): void => {
    const bytes = sizeNow();
    const isFast = bytes - bytesBefore > maxBytes / 8;
    ifPossible(() => {
      if (bytes > 2 * maxBytes && bytes - findGap(fd, last) > 2 * maxBytes) cut();
    });
    bytesBefore = Math.min(bytes, maxBytes);
    delayMs = isFast ? FASTEST_CHECK_MS : Math.min(2 * delayMs, SLOWEST_CHECK_MS);
    timer = setTimeout(check, delayMs);
  };
  let timer = setTimeout(check, delayMs);
  return () => {
    clearTimeout(timer);
    ifPossible(() => {
      if (sizeNow() > 2 * maxBytes || findGap(fd, last) > 0) cut();
    });
    return droppedBytes;
  };
}

/** Size of the head of a file from which something was dropped. */
function headBytes(maxBytes: number): number {
  return Math.floor(maxBytes / 2);
}

interface Cut {
  /** The file's size before the cut. */
  readonly size: number;
  /** The file's size after the cut. */
  readonly kept: number;
  readonly droppedBytes: number;
}

/** Moves the tail down behind the head. */
function cutMiddle(fd: number, maxBytes: number, last: Cut, scan: OutputScan | null): Cut {
  const { size } = fstatSync(fd);
  const gap = findGap(fd, last);
  const head = headBytes(maxBytes);
  const tailStart = Math.max(size - (maxBytes - head), gap > 0 ? last.size : 0);
  scan?.readBeforeCut(fd, tailStart, head);
  moveDown(fd, tailStart, head);
  const kept = head + (size - tailStart);
  ftruncateSync(fd, kept);
  return { size, kept, droppedBytes: size - kept - gap };
}

/**
 * The size of the gap that a writer leaves after a cut: `> /dev/stderr` opens the file a second time, with its own
 * position, and its writer goes on there. No process has written the bytes in the gap.
 */
function findGap(fd: number, last: Cut): number {
  const gap = last.size - last.kept;
  if (gap <= 0) return 0;
  const { size, blocks } = fstatSync(fd);
  // Zeros that were written occupy blocks on the disk; a gap does not.
  if (size <= last.size || blocks * BLOCK_BYTES > size - gap / 2) return 0;
  const start = Buffer.alloc(Math.min(gap, GAP_SAMPLE_BYTES), 1);
  readSync(fd, start, 0, start.length, last.kept);
  return start.every((byte) => byte === 0) ? gap : 0;
}

function moveDown(fd: number, from: number, to: number): void {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let moved = 0; ; ) {
    const length = readSync(fd, chunk, 0, chunk.length, from + moved);
    if (length === 0) return;
    writeSync(fd, chunk, 0, length, to + moved);
    moved += length;
  }
}

/** Stops the group: bytes written between reading the size and cutting would be lost without being counted. */
function whileStopped<T>(pid: number, cut: () => T): T {
  signalGroup(pid, 'SIGSTOP');
  try {
    waitForStandstill(pid);
    return cut();
  } finally {
    signalGroup(pid, 'SIGCONT');
  }
}

function waitForStandstill(pid: number): void {
  const deadline = performance.now() + STANDSTILL_MS;
  while (!listTree(pid).every(isStopped) && performance.now() < deadline);
}

/** T: stopped. Z: has ended. Without `/proc` the state is unknown, and nothing is waited for. */
function isStopped(pid: number): boolean {
  const state = readStatFields(pid)?.[0];
  return state === undefined || state === 'T' || state === 'Z';
}
