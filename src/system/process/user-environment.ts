import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { findOwnNode } from './programs.ts';

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

interface Account extends Record<string, string> {
  readonly HOME: string;
  readonly USER: string;
  readonly LOGNAME: string;
}

let known: { readonly uid: number | undefined; readonly account: Account | null } | null = null;

/**
 * Asks the system once: on some hosts a directory on the network answers. Root may become another user before it runs
 * anything.
 */
function findAccount(): Account | null {
  const uid = process.geteuid?.();
  if (known === null || known.uid !== uid) known = { uid, account: askForAccount() };
  return known.account;
}

function askForAccount(): Account | null {
  try {
    const { homedir, username } = userInfo();
    return { HOME: homedir === '' ? '/' : homedir, USER: username, LOGNAME: username };
  } catch {
    return null;
  }
}
