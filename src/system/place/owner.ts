import { closeSync, existsSync, lstatSync, openSync, statSync } from 'node:fs';
import { type UserInfo, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { nameUser } from './trust.ts';

/** The user, other than root, who owns a site that root called the runner in. */
export interface SiteOwner {
  readonly uid: number;
  /** The part of the site that belongs to this user. */
  readonly path: string;
}

/**
 * Null: this user is not root, or the site is root's own. A site that does not exist yet belongs to the owner of the
 * nearest folder above it.
 */
export function findOtherOwner(root: string): SiteOwner | null {
  if (process.geteuid?.() !== 0) return null;
  const path = nearestThere(root);
  const { uid } = statSync(path);
  if (uid !== 0) return { uid, path };
  const parts = ['.runner', 'jobs'].map((name) => ({ path: join(path, name), uid: ownerOf(join(path, name)) }));
  return parts.find((part) => part.uid !== 0) ?? null;
}

function nearestThere(path: string): string {
  return existsSync(path) ? path : nearestThere(dirname(path));
}

/** Returns root if the path does not exist. */
function ownerOf(path: string): number {
  return existsSync(path) ? lstatSync(path).uid : 0;
}

/** Says why root does nothing there and what to do instead; a caller may append "or …". */
export function describeOwner({ uid, path }: SiteOwner): string {
  const name = nameUser(uid);
  const [, login] = /^(.*) \(uid \d+\)$/.exec(name) ?? [];
  const example = login === undefined ? '' : `, such as with: su -s /bin/sh -c 'runner …' ${login}`;
  return `${path} belongs to ${name}, and root does nothing in another user's site; call this as that user${example}`;
}

/**
 * Makes this process the owner's, for good and in every respect: what it creates is theirs, and their links and their
 * code reach no more than they could reach themselves. It keeps only those variables of root's environment that are no
 * secrets.
 *
 * @param programs files that the owner must be able to read, besides the site
 * @throws {UsageError} if this root may not become another user, or the owner cannot read the site or the programs
 */
export function becomeOwner({ uid, path }: SiteOwner, programs: readonly string[]): void {
  const refused = (why: string, error: unknown) => new UsageError(`${why} (${(error as Error).message})`);
  const name = nameUser(uid);
  try {
    const user = actAs(uid, findUser);
    if (user === null) process.setgroups?.([]);
    else (process as GroupsOfUser).initgroups(user.username, user.gid);
    // Without an entry only the number is known: a user's own group usually has the same one.
    process.setgid?.(user?.gid ?? uid);
    takeEnvironmentOf(user);
  } catch (error) {
    throw refused(`root may not take the rights of ${name} here`, error);
  }
  try {
    actAs(uid, () => {
      statSync(path);
      programs.forEach(demandReadable);
    });
  } catch (error) {
    throw refused(`${name} cannot do this: let that user read the site and the runner, or move them`, error);
  }
  process.setuid?.(uid);
}

/** Node has this function; its types lack it. */
type GroupsOfUser = typeof process & { initgroups(name: string, gid: number): void };

function actAs<T>(uid: number, act: () => T): T {
  process.seteuid?.(uid);
  try {
    return act();
  } finally {
    process.seteuid?.(0);
  }
}

/** Looks the user up in the system, which may ask a directory on the network; null: no entry. */
function findUser(): UserInfo<string> | null {
  try {
    return userInfo();
  } catch {
    return null;
  }
}

const kept = /^(?:PATH|TERM|COLORTERM|COLUMNS|(?:NO|FORCE)_COLOR|LANG|LANGUAGE|LC_\w+|RUNNER_(?:ROOT|ALLOW_UNSAFE))$/;

function takeEnvironmentOf(user: UserInfo<string> | null): void {
  for (const variable of Object.keys(process.env)) if (!kept.test(variable)) delete process.env[variable];
  if (user === null) return;
  const { homedir: HOME, username: USER } = user;
  Object.assign(process.env, { HOME, USER, LOGNAME: USER });
}

/** Opens the file: an access check would judge the real user, who is still root. */
function demandReadable(path: string): void {
  closeSync(openSync(path, 'r'));
}
