import { lstatSync, readFileSync, readlinkSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { shellWord } from '../base/values.ts';

/** Why somebody else than the runner's user, or root, could have written a file. */
export interface Distrust {
  readonly path: string;
  /** Follows the path: "can be written by anybody (mode 0666)". */
  readonly reason: string;
  /** "close it with: chmod go-w jobs/hourly/a.sh", of the path as it is to be named. */
  readonly cure: (name: string) => string;
}

/** Of the variables of the environment: the one way to allow it that no file can take. */
export const OVERRIDE_VARIABLE = 'RUNNER_ALLOW_UNSAFE';

const GROUP_WRITES = 0o020;
const ANYBODY_WRITES = 0o002;
const STICKY = 0o1000;

/** The root folder itself, wherever it leads: it is the last one that is judged, upwards. */
export function judgeRoot(root: string): Distrust | null {
  return judge(root, statSync(root));
}

/**
 * Who else could have written what lies at a path below the root. Of a symlink, that is all that it
 * leads through: the links, what they lead to, and every folder outside the root on the way. A folder
 * above the root counts only if it is the end: then it is what is used.
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

/** Whoever has it open still writes it once it has been given away: only a copy is safe. */
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
  // Throws where links lead in a circle: below, that would have no end.
  realpathSync.native(path);
  const steps = [...stepsTo(realRoot, relative(root, path))];
  const end = steps.at(-1);
  return steps
    .filter((step) => step === end || !isAbove(step.path, realRoot))
    .map((step) => (isHarmless(step, step === end) ? null : judge(step.path, step.stats)))
    .filter((distrust) => distrust !== null);
}

/** The root is judged by itself, and what is above it only where a link leads there. */
function isAbove(path: string, root: string): boolean {
  return root === path || root.startsWith(path === '/' ? '/' : `${path}/`);
}

/**
 * Everybody can write a link, to no effect, and in a sticky folder such as `/tmp` nobody can replace
 * what is another's. Neither helps against who owns it.
 */
function isHarmless({ stats }: Step, isEnd: boolean): boolean {
  const isOpenByNature = stats.isSymbolicLink() || (!isEnd && (stats.mode & STICKY) !== 0);
  return isOpenByNature && (stats.uid === 0 || stats.uid === process.geteuid?.());
}

interface Step {
  readonly path: string;
  readonly stats: Stats;
}

/** As the kernel goes: folder by folder, into every link, to what it leads to in the end. */
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

/** Puts what the link says in front of what is still to go, and returns where to go on from. */
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

/** Its members are those beside the users whose own group it is. */
interface Group {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}

/** What `/etc/passwd` and `/etc/group` say; nothing where they cannot be read. */
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
 * Whether nobody but this user and root is in the group. Where the user or the group is not in the
 * files (LDAP, a container), the numbers must do: the group that is made with a user has the same one.
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

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Lines with `+` or `-` in front point elsewhere (NIS). */
function readEntries(text: string): readonly (readonly string[])[] {
  const lines = text.split('\n').filter((line) => /^[^#+-]/.test(line));
  return lines.map((line) => line.split(':'));
}

/** How a message ends about what settings cannot allow, as they are not to be trusted or not read. */
export const orAllowOutside = `or allow it with ${OVERRIDE_VARIABLE}=1 in the environment`;

/** How a message ends about what is refused unless it is forced. */
export const orAllow = `or allow it with allowUnsafe: true in runner.config.* or ${OVERRIDE_VARIABLE}=1 in the environment`;

/** One sentence: what, where, whose, and the cure; paths below the root as seen from there. */
export function describeDistrust(root: string, distrust: Distrust, orElse = orAllow): string {
  const name = nameWithin(root, distrust.path);
  return `${name} ${distrust.reason}; ${distrust.cure(name)}, ${orElse}`;
}

function nameWithin(root: string, path: string): string {
  const name = relative(root, path);
  return name === '' || name.startsWith('..') ? path : name;
}
