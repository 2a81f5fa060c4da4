import { accessSync, constants, readdirSync } from 'node:fs';
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

/** Where hosts and people have programs that are not on the PATH of cron; `*` stands for one folder. */
const usualFolders = [
  ...['~/bin', '~/.local/bin', '~/.composer/vendor/bin', '~/.config/composer/vendor/bin', '~/.cargo/bin'],
  ...['~/.npm-global/bin', '~/.nvm/versions/node/*/bin', '/usr/local/sbin', '/usr/sbin', '/sbin', '/snap/bin'],
  ...['/opt/bin', '/opt/*/bin', '/opt/cpanel/*/root/usr/bin', '/opt/alt/*/usr/bin', '/opt/plesk/php/*/bin'],
  ...['/usr/local/*/bin', '/usr/lib/postgresql/*/bin', '/usr/lib/git-core'],
];

/** A program that is not where it was looked for: on this process's own PATH, or in a usual place; null: nowhere there. */
export function findElsewhere(name: string, { PATH = '', HOME }: NodeJS.ProcessEnv): string | null {
  const folders = usualFolders
    .filter((folder) => HOME !== undefined || !folder.startsWith('~'))
    .flatMap((folder) => expandFolder(folder.replace('~', () => HOME ?? '')));
  return findProgram(name, [...PATH.split(':').filter(isAbsolute), ...folders].join(':'));
}

function expandFolder(pattern: string): readonly string[] {
  const [before = '', after] = pattern.split('*');
  if (after === undefined) return [pattern];
  try {
    return readdirSync(before)
      .toSorted()
      .toReversed()
      .map((name) => before + name + after);
  } catch {
    // It is not there, or not for this user.
    return [];
  }
}
