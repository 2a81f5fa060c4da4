import { readSync } from 'node:fs';

const HEAD_BYTES = 8 * 1024;

/** The beginning of an output file. */
export function readHead(fd: number): string {
  const head = Buffer.alloc(HEAD_BYTES);
  return head.toString('latin1', 0, readSync(fd, head, 0, HEAD_BYTES, 0));
}
