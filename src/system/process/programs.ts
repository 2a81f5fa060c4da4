import { accessSync, constants, readdirSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { findAccount } from './user.ts';

/** The first program of this name in the folders of a PATH. */
export function findProgram(name: string, path: string): string | null {
  const candidates = path.split(':').map((folder) => join(folder, name));
  return candidates.find(isExecutable) ?? null;
}

/**
 * The full path of the Node that runs this process. Without `/proc` Node only knows the name that it was called by, and
 * `node` alone could be another one.
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

/** The usual folders of sendmail; cron's PATH has none of them. */
const foldersOfSendmail = ['/usr/sbin', '/usr/lib', '/usr/bin', '/usr/local/sbin', '/usr/local/bin'];

/** The local mail program; null: none. */
export function findSendmail({ PATH = '' }: NodeJS.ProcessEnv): string | null {
  return findProgram('sendmail', [...foldersOfSendmail, ...PATH.split(':').filter(Boolean)].join(':'));
}

/** The usual folders of programs that are not on cron's PATH; `*` stands for one folder. */
const usualFolders = [
  ...['~/bin', '~/.local/bin', '~/.composer/vendor/bin', '~/.config/composer/vendor/bin', '~/.cargo/bin'],
  ...['~/.npm-global/bin', '~/.nvm/versions/node/*/bin', '/usr/local/sbin', '/usr/sbin', '/sbin', '/snap/bin'],
  ...['/opt/bin', '/opt/*/bin', '/opt/cpanel/*/root/usr/bin', '/opt/alt/*/usr/bin', '/opt/plesk/php/*/bin'],
  ...['/usr/local/*/bin', '/usr/lib/postgresql/*/bin', '/usr/lib/git-core'],
];

/** Looks for a program on this process's own PATH and in the usual folders; null: not there. */
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
    // The folder is missing, or closed to this user.
    return [];
  }
}

/** UTF-8 without a language, sorted by bytes: like cron's C locale, but for text. */
const LOCALE = 'C.UTF-8';

/**
 * The environment that programs of this user start with, whoever calls the runner: cron, a shell, a web server. With
 * the caller's own locale, home or PATH a script could work by hand and fail under cron.
 *
 * @param caller its values count only for a user without an entry in the system, as in some containers
 */
export function userEnvironment(caller: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return { ...accountVariables(caller), SHELL: '/bin/sh', PATH: defaultPath(), LANG: LOCALE };
}

/** The PATH of scripts, unless settings give another one. */
export function defaultPath(): string {
  return [dirname(findOwnNode()), '/usr/local/bin', '/usr/bin', '/bin'].join(':');
}

function accountVariables(caller: NodeJS.ProcessEnv): Record<string, string> {
  const account = findAccount();
  if (account !== null) return account;
  const named = ['HOME', 'USER', 'LOGNAME'].flatMap((name) => {
    const value = caller[name];
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(named);
}
