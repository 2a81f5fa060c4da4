import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { findOwnNode } from './programs.ts';

/** UTF-8 without the language of anybody, with bytes in their order: as cron's C locale, but for text. */
const LOCALE = 'C.UTF-8';

/**
 * What programs of this user start with, whoever calls the runner: cron, a shell, a web server. A caller's own locale,
 * home or PATH would make a script work by hand that fails under cron.
 *
 * @param caller whose values count only for a user without an entry in the system, as in some containers
 */
export function userEnvironment(caller: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return { ...accountVariables(caller), SHELL: '/bin/sh', PATH: defaultPath(), LANG: LOCALE };
}

/** Where a script looks for programs, unless it is told otherwise. */
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

/** Asked once: on some hosts a directory on the network answers. Root may become another user before it runs anything. */
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
