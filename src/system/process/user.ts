import { userInfo } from 'node:os';

/** The entry of a user in the system, as the variables of its programs. */
interface Account extends Record<string, string> {
  readonly HOME: string;
  readonly USER: string;
  readonly LOGNAME: string;
}

let known: { readonly uid: number | undefined; readonly account: Account | null } | null = null;

/**
 * The entry of the user whose rights this process has; null: there is none, as in some containers. Asks the system once:
 * on some hosts a directory on the network answers. Root may become another user before it runs anything.
 */
export function findAccount(): Account | null {
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

/**
 * The user whose rights this process has: `ada`.
 *
 * @param unnamed the name of a user without an entry in the system; default: `user 1000`
 */
export function userName(unnamed = `user ${process.geteuid?.()}`): string {
  return findAccount()?.USER || unnamed;
}
