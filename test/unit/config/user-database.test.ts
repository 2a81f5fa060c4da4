import { describe, expect, test } from 'vitest';
import {
  isPrivateGroup,
  nameGroup,
  nameUser,
  parseUserDatabase,
  readUserDatabase,
} from '../../../src/system/place/trust.ts';

const passwd = `root:x:0:0:root:/root:/bin/bash
www-data:x:33:33::/var/www:/usr/sbin/nologin
alice:x:1001:1001:,,,:/home/alice:/bin/bash
bob:x:1002:100::/home/bob:/bin/sh
# a comment
+::::::
`;
const group = `root:x:0:
www-data:x:33:
users:x:100:
alice:x:1001:
alices:x:1010:alice,root
site:x:1011:alice,www-data
empty:x:1012:
`;
const database = parseUserDatabase(passwd, group);

describe('a group of alice', () => {
  test.each([
    ['alice', 1001, true],
    ['alices', 1010, true],
    ['empty', 1012, true],
    ['root', 0, true],
    ['site, with the web server in it', 1011, false],
    ['www-data, as somebody’s own group', 33, false],
    ['users, as bob’s own group', 100, false],
    ['one that is in no file', 4711, false],
  ])('%s', (_name, gid, isPrivate) => {
    expect(isPrivateGroup(gid, 1001, database)).toBe(isPrivate);
  });
});

test('of a user who is in no file, the group of the same number is private, and no other', () => {
  expect(isPrivateGroup(5000, 5000, database)).toBe(true);
  expect(isPrivateGroup(100, 5000, database)).toBe(false);
  expect(isPrivateGroup(1012, 5000, database)).toBe(false);
});

test('without the files nothing is known but numbers', () => {
  const nothing = parseUserDatabase('', '');
  expect(isPrivateGroup(1001, 1001, nothing)).toBe(true);
  expect(isPrivateGroup(1010, 1001, nothing)).toBe(false);
  expect(nameUser(1001, nothing)).toBe('uid 1001');
  expect(nameGroup(33, nothing)).toBe('gid 33');
});

test('users and groups are named with their numbers', () => {
  expect(nameUser(1002, database)).toBe('bob (uid 1002)');
  expect(nameGroup(33, database)).toBe('www-data (gid 33)');
});

test('this machine has a root', () => {
  expect(nameUser(0, readUserDatabase())).toBe('root (uid 0)');
});
