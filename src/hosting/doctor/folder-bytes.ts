import { lstatSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** What a file or a folder with all that is in it takes on the disk, empty folders not counted; `path*`: all that begin so. */
export function folderBytes(path: string): number {
  if (!path.endsWith('*')) return bytesOf(path);
  const start = basename(path).slice(0, -1);
  const names = namesIn(dirname(path)).filter((name) => name.startsWith(start));
  return sum(names.map((name) => bytesOf(join(dirname(path), name))));
}

/** 0 for what is gone meanwhile or cannot be looked at. */
function bytesOf(path: string): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.blocks * 512;
  return sum(namesIn(path).map((name) => bytesOf(join(path, name))));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
