import { readlinkSync } from 'node:fs';
import { shellWord } from '../config/shell-word.ts';
import type { Unread } from './script.ts';

/** Why a file or folder cannot be read, in one sentence; null if it is gone, which is no fault. */
export function describeReadFailure(path: string, file: string, error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  const target = code === 'ENOENT' ? linkTarget(path) : null;
  if (target !== null) {
    return `${file}: a symlink to ${JSON.stringify(target)}, which does not exist; mend or remove it`;
  }
  if (code === 'ENOENT') return null;
  if (code === 'ELOOP') return `${file}: a symlink that leads back to itself; mend or remove it`;
  if (code === 'EACCES' || code === 'EPERM') {
    return `${file}: it cannot be read: permission denied; allow it with: chmod u+rX ${shellWord(file)}`;
  }
  return `${file}: it cannot be read: ${code ?? String(error)}`;
}

/** The same of a folder directly under `jobs/`. */
export function describeUnread(folder: string, tier: string, error: unknown): Unread {
  const name = `jobs/${tier}`;
  const reason = describeReadFailure(folder, name, error) ?? `${name}: it vanished`;
  return { tier, reason };
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}
