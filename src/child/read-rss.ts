import { openSync, readSync } from 'node:fs';

const PAGE_BYTES = 4096;
const buffer = Buffer.alloc(128);
let fd: number | null = null;
let isStatmRight: boolean | null = null;

/** Resident memory of this process: 2 µs, where asking Node costs 10. */
export function readRssBytes(): number {
  if (isStatmRight === false) return process.memoryUsage.rss();
  const rssBytes = readStatm();
  isStatmRight ??= isAbout(rssBytes, process.memoryUsage.rss());
  return isStatmRight && rssBytes !== null ? rssBytes : process.memoryUsage.rss();
}

/** Null where there is none. */
function readStatm(): number | null {
  try {
    fd ??= openSync('/proc/self/statm', 'r');
    const [, pages] = buffer.toString('latin1', 0, readSync(fd, buffer, 0, 128, 0)).split(' ', 2);
    return Number(pages) * PAGE_BYTES;
  } catch {
    return null;
  }
}

/** Pages have another size on some machines, and `/proc` can be another container's. */
function isAbout(one: number | null, other: number): boolean {
  return one !== null && one > other / 2 && one < other * 2;
}
