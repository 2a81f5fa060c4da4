import { type Stats, statSync } from 'node:fs';

/** What has changed only just may change again without another time stamp. */
const SETTLED_MS = 2_000;

/** Differs from the one before if a file or folder was changed or replaced, or its mode or owner was. */
export function markOf(path: string): string {
  const stats = statOf(path);
  if (stats === null) return '';
  const { dev, ino, size, mtimeMs, ctimeMs } = stats;
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
}

/** Only then does its mark tell of every change since. */
export function isSettled(path: string): boolean {
  const stats = statOf(path);
  return stats === null || Date.now() - stats.ctimeMs > SETTLED_MS;
}

/** Null for what is not there, or cannot be looked at. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
