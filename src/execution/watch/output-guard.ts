import { fstatSync, ftruncateSync, readSync, writeSync } from 'node:fs';
import { readStatFields } from '../../system/process/identity.ts';
import { listTree, signalGroup } from '../../system/process/tree.ts';
import type { OutputScan } from '../result/demands.ts';
import { ifPossible, sizeOfOpen } from '../run-files.ts';

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
export function headBytes(maxBytes: number): number {
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
