import { lstatSync, readlinkSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Fault } from '../base/errors.ts';
import { readIfThere, shellWord } from '../base/values.ts';

/** Why somebody other than the runner's user and root could have written a file. */
export interface Distrust {
  readonly path: string;
  /** Follows the path: "can be written by anybody (mode 0666)". */
  readonly reason: string;
  /** Takes the path as the message names it: "close it with: chmod go-w jobs/hourly/a.sh". */
  readonly cure: (name: string) => string;
}

/** The environment variable that allows untrusted files: the only permission that no file can forge. */
export const OVERRIDE_VARIABLE = 'RUNNER_ALLOW_UNSAFE';

const GROUP_WRITES = 0o020;
const ANYBODY_WRITES = 0o002;
const STICKY = 0o1000;

/** Judges the root folder itself, wherever a link leads: folders above it are not judged. */
export function judgeRoot(root: string): Distrust | null {
  return judge(root, statSync(root));
}

/**
 * Judges who else could have written the file or folder at a path below the root. For a symlink, this covers the whole
 * way: the links, their targets, and every folder outside the root on the way. A folder above the root counts only if
 * it is the final target, which is then what is used.
 */
export function judgePath(root: string, path: string): readonly Distrust[] {
  const stats = lstatSync(path);
  if (stats.isSymbolicLink()) return judgeWay(root, path);
  const distrust = judge(path, stats);
  return distrust === null ? [] : [distrust];
}

function judge(path: string, { uid, gid, mode }: Stats): Distrust | null {
  const own = process.geteuid?.() ?? 0;
  if (uid !== own && uid !== 0) return judgeOwner(path, uid, own);
  if ((mode & ANYBODY_WRITES) !== 0) return judgeMode(path, mode, 'anybody', 'go-w');
  if ((mode & GROUP_WRITES) === 0 || isPrivateGroup(gid, own)) return null;
  return judgeMode(path, mode, `the group ${nameGroup(gid)}`, 'g-w');
}

/**
 * A process of the other user that has the file open still writes to it after a change of owner: only a copy is safe.
 */
function judgeOwner(path: string, uid: number, own: number): Distrust {
  const cure = () => 'look at it, and replace it by a copy of your own';
  const whose = own === 0 ? `${nameUser(uid)}, and root uses only files of its own` : `another user, ${nameUser(uid)}`;
  return { path, reason: `belongs to ${whose}`, cure };
}

function judgeMode(path: string, mode: number, who: string, change: string): Distrust {
  const octal = (mode & 0o7777).toString(8).padStart(4, '0');
  const reason = `can be written by ${who} (mode ${octal})`;
  return { path, reason, cure: (name) => `close it with: chmod ${change} ${shellWord(name)}` };
}

function judgeWay(root: string, path: string): readonly Distrust[] {
  const realRoot = realpathSync.native(root);
  // Throws if links form a circle: the walk below would never end.
  realpathSync.native(path);
  const steps = [...stepsTo(realRoot, relative(root, path))];
  const end = steps.at(-1);
  return steps
    .filter((step) => step === end || !isAbove(step.path, realRoot))
    .map((step) => (isHarmless(step, step === end) ? null : judge(step.path, step.stats)))
    .filter((distrust) => distrust !== null);
}

/** The root is judged by itself; a folder above it only if a link leads to it. */
function isAbove(path: string, root: string): boolean {
  return root === path || root.startsWith(path === '/' ? '/' : `${path}/`);
}

/**
 * A link is writable for everybody, to no effect, and in a sticky folder such as `/tmp` nobody can replace another
 * user's file. Neither protects against the owner.
 */
function isHarmless({ stats }: Step, isEnd: boolean): boolean {
  const isOpenByNature = stats.isSymbolicLink() || (!isEnd && (stats.mode & STICKY) !== 0);
  return isOpenByNature && (stats.uid === 0 || stats.uid === process.geteuid?.());
}

interface Step {
  readonly path: string;
  readonly stats: Stats;
}

/** Walks as the kernel does: folder by folder, into every link, to the final target. */
function* stepsTo(root: string, path: string): Generator<Step> {
  const ahead = path.split('/');
  let folder = root;
  for (let name = ahead.shift(); name !== undefined; name = ahead.shift()) {
    const next = join(folder, name);
    const stats = lstatSync(next);
    if (!['', '.', '..'].includes(name)) yield { path: next, stats };
    if (!stats.isSymbolicLink()) folder = next;
    else folder = resolveLink(next, ahead);
  }
}

/** Puts the link's target in front of the rest of the path, and returns the folder to go on from. */
function resolveLink(path: string, ahead: string[]): string {
  const target = readlinkSync(path);
  ahead.unshift(...target.split('/'));
  return target.startsWith('/') ? '/' : dirname(path);
}

interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Its members do not include the users whose own group it is. */
interface Group {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}

/** The entries of `/etc/passwd` and `/etc/group`; empty if they cannot be read. */
interface UserDatabase {
  readonly users: readonly User[];
  readonly groups: readonly Group[];
}

export function readUserDatabase(): UserDatabase {
  return parseUserDatabase(readIfThere('/etc/passwd'), readIfThere('/etc/group'));
}

export function parseUserDatabase(passwd: string, group: string): UserDatabase {
  const users = readEntries(passwd).map(([name = '', , uid, gid]) => {
    return { name, uid: Number(uid), gid: Number(gid) };
  });
  const groups = readEntries(group).map(([name = '', , gid, members = '']) => {
    return { name, gid: Number(gid), members: members.split(',').filter(Boolean) };
  });
  return { users, groups };
}

/**
 * Whether only this user and root are in the group. If the files lack the user or the group (LDAP, a container), the
 * numbers decide: a group that was made with a user has the user's number.
 */
export function isPrivateGroup(
  gid: number,
  uid: number,
  { users, groups }: UserDatabase = readUserDatabase(),
): boolean {
  const group = groups.find((each) => each.gid === gid);
  if (group === undefined || !users.some((user) => user.uid === uid)) return gid === uid;
  const isHarmless = (user: User) => user.uid === uid || user.uid === 0;
  const harmless = new Set(users.filter(isHarmless).map(({ name }) => name));
  const isOfOthers = users.some((user) => user.gid === gid && !isHarmless(user));
  return !isOfOthers && group.members.every((name) => harmless.has(name));
}

/** "alice (uid 1001)", "uid 1001" */
export function nameUser(uid: number, { users }: UserDatabase = readUserDatabase()): string {
  const user = users.find((each) => each.uid === uid);
  return user === undefined ? `uid ${uid}` : `${user.name} (uid ${uid})`;
}

/** "www-data (gid 33)", "gid 33" */
export function nameGroup(gid: number, { groups }: UserDatabase = readUserDatabase()): string {
  const group = groups.find((each) => each.gid === gid);
  return group === undefined ? `gid ${gid}` : `${group.name} (gid ${gid})`;
}

/** Lines that begin with `+` or `-` refer to another source (NIS). */
function readEntries(text: string): readonly (readonly string[])[] {
  const lines = text.split('\n').filter((line) => /^[^#+-]/.test(line));
  return lines.map((line) => line.split(':'));
}

/** The end of a message about a file that settings cannot allow, because they are untrusted or not yet read. */
export const orAllowOutside = `or allow it with ${OVERRIDE_VARIABLE}=1 in the environment`;

/** The end of a message about a file that is refused unless it is allowed. */
export const orAllow = `or allow it with allowUnsafe: true in runner.config.* or ${OVERRIDE_VARIABLE}=1 in the environment`;

/** The fault of a path, and how to fix it; a path below the root is shown relative to it. */
export function faultOf(root: string, { path, reason, cure }: Distrust, orElse = orAllow): Fault {
  const name = nameWithin(root, path);
  return { found: `${name} ${reason}`, cure: `${cure(name)}, ${orElse}` };
}

function nameWithin(root: string, path: string): string {
  const name = relative(root, path);
  return name === '' || name.startsWith('..') ? path : name;
}
