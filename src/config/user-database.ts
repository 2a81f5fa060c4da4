import { readFileSync } from 'node:fs';

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
export interface UserDatabase {
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
