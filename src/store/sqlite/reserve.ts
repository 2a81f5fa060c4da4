import { closeSync, fsyncSync, lstatSync, openSync, rmSync, writeSync } from 'node:fs';
import type { StateFolder } from '../../system/place/state-folder.ts';

/** Enough for the last records of a pass, in the log and beside it. */
const RESERVE_BYTES = 256 * 1024;

/** Has a file ready that can be given up when the disk is full. Never throws: it is there if it can be. */
export function keepReserve({ reserve }: StateFolder): void {
  try {
    const found = lstatSync(reserve, { throwIfNoEntry: false });
    if (found?.isFile() && found.size === RESERVE_BYTES) return;
    // Opening a named pipe would wait for a reader, and a link may lead to anything.
    if (found?.isFile() === false) rmSync(reserve);
    fill(reserve);
  } catch {
    remove(reserve);
  }
}

/** Gives up the reserve; false: there was none. Never throws. */
export function releaseReserve({ reserve }: StateFolder): boolean {
  try {
    if (lstatSync(reserve, { throwIfNoEntry: false }) === undefined) return false;
    rmSync(reserve);
    return true;
  } catch {
    return false;
  }
}

/** With bytes that a file system can neither leave out nor compress; a file of zeros may take no room. */
function fill(path: string): void {
  const bytes = incompressible(RESERVE_BYTES);
  const fd = openSync(path, 'w', 0o600);
  try {
    for (let written = 0; written < RESERVE_BYTES; ) written += writeSync(fd, bytes, written);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Not from `node:crypto`, which a start would wait for. */
function incompressible(count: number): Uint8Array {
  const words = new Uint32Array(count / 4);
  for (let index = 0; index < words.length; index += 1) words[index] = Math.random() * 2 ** 32;
  return new Uint8Array(words.buffer);
}

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The next pass tries again.
  }
}
