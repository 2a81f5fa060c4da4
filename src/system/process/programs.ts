import { accessSync, constants } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';

/** The first program of this name in the folders of a PATH. */
export function findProgram(name: string, path: string): string | null {
  const candidates = path.split(':').map((folder) => join(folder, name));
  return candidates.find(isExecutable) ?? null;
}

/**
 * The Node that runs this, by its full path. Without `/proc` it only knows what it was called by, and
 * `node` alone could be any other.
 */
export function findOwnNode(): string {
  const { execPath, env } = process;
  if (isAbsolute(execPath)) return execPath;
  if (execPath.includes('/')) return resolve(execPath);
  return findProgram(execPath, env.PATH ?? '') ?? execPath;
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where hosts have it: it is on nobody's PATH under cron. */
const foldersOfSendmail = ['/usr/sbin', '/usr/lib', '/usr/bin', '/usr/local/sbin', '/usr/local/bin'];

/** The local mail program; null: there is none. */
export function findSendmail({ PATH = '' }: NodeJS.ProcessEnv): string | null {
  return findProgram('sendmail', [...foldersOfSendmail, ...PATH.split(':').filter(Boolean)].join(':'));
}
