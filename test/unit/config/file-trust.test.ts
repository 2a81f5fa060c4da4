import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sentenceOf } from '../../../src/system/base/errors.ts';
import {
  faultOf,
  isPrivateGroup,
  judgePath,
  judgeRoot,
  nameGroup,
  nameUser,
  parseUserDatabase,
  readUserDatabase,
} from '../../../src/system/place/trust.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const judge = (root: string, path: string): readonly string[] =>
  judgePath(root, join(root, path)).map((distrust) => sentenceOf(faultOf(root, distrust, 'OR ALLOW')));

test.each([0o600, 0o644, 0o755, 0o4755])('a file of one’s own with mode %o is trusted', (mode) => {
  const root = makeTemporaryRoot({ a: { content: '', mode } });
  expect(judge(root, 'a')).toEqual([]);
});

test('what anybody can write is not, and the cure can be pasted', () => {
  const root = makeTemporaryRoot({ "it's": { content: '', mode: 0o646 } });
  expect(judge(root, "it's")).toEqual([
    String.raw`it's can be written by anybody (mode 0646); close it with: chmod go-w 'it'\''s', OR ALLOW`,
  ]);
});

test('nor is a folder that anybody can write, be it sticky: they could add to it', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a': '' });
  chmodSync(join(root, 'jobs'), 0o1777);
  expect(judge(root, 'jobs')).toEqual([
    'jobs can be written by anybody (mode 1777); close it with: chmod go-w jobs, OR ALLOW',
  ]);
});

test('the root is judged itself, whatever lies above it', () => {
  const open = mkdtempSync(join(tmpdir(), 'runner-open-'));
  const root = join(open, 'root');
  mkdirSync(root, { mode: 0o755 });
  chmodSync(open, 0o777);
  expect(judgeRoot(root)).toBeNull();
  chmodSync(root, 0o757);
  expect(judgeRoot(root)).toMatchObject({ path: root, reason: 'can be written by anybody (mode 0757)' });
});

describe('a symlink', () => {
  test('to a file of one’s own is trusted, within the root and elsewhere', () => {
    const root = makeTemporaryRoot({ 'shared/a': '' });
    const elsewhere = makeTemporaryRoot({ b: '' });
    symlinkSync('../shared/a', join(root, 'jobs/a'));
    symlinkSync(join(elsewhere, 'b'), join(root, 'jobs/b'));
    expect([...judge(root, 'jobs/a'), ...judge(root, 'jobs/b')]).toEqual([]);
  });

  test('is as good as what it leads to', () => {
    const root = makeTemporaryRoot({ 'shared/a': { content: '', mode: 0o666 } });
    symlinkSync('../shared/a', join(root, 'jobs/a'));
    expect(judge(root, 'jobs/a')).toEqual([
      'shared/a can be written by anybody (mode 0666); close it with: chmod go-w shared/a, OR ALLOW',
    ]);
  });

  test('is as good as every folder and link on its way', () => {
    const root = makeTemporaryRoot();
    const elsewhere = makeTemporaryRoot({ 'open/real/a': '', 'fine/b': '' });
    chmodSync(join(elsewhere, 'open'), 0o777);
    symlinkSync(join(elsewhere, 'open/real'), join(elsewhere, 'fine/way'));
    symlinkSync(join(elsewhere, 'fine/way/a'), join(root, 'jobs/a'));
    const judged = judgePath(root, join(root, 'jobs/a')).map(({ path }) => path);
    expect(judged).toEqual([join(elsewhere, 'open')]);
    expect(judge(root, 'jobs/a')[0]).toContain(`chmod go-w ${join(elsewhere, 'open')}`);
  });

  test('may lead through a sticky folder such as /tmp', () => {
    const root = makeTemporaryRoot();
    const elsewhere = makeTemporaryRoot({ 'sticky/a': '' });
    chmodSync(join(elsewhere, 'sticky'), 0o1777);
    symlinkSync(join(elsewhere, 'sticky/a'), join(root, 'jobs/a'));
    expect(judge(root, 'jobs/a')).toEqual([]);
    chmodSync(join(elsewhere, 'sticky/a'), 0o666);
    expect(judge(root, 'jobs/a')).toHaveLength(1);
  });

  test('may lead back into the root by a way above it, which is not judged', () => {
    const root = makeTemporaryRoot({ 'site/jobs/a': '', 'site/b': '' });
    chmodSync(root, 0o777);
    symlinkSync(join(root, 'site/b'), join(root, 'site/jobs/b'));
    expect(judge(join(root, 'site'), 'jobs/b')).toEqual([]);
  });

  test.each([0o777, 0o1777])('to a folder above the root with mode %o is not trusted', (mode) => {
    const above = makeTemporaryRoot({ 'site/jobs/a': '' });
    chmodSync(above, mode);
    symlinkSync(above, join(above, 'site/jobs/hourly'));
    expect(judge(join(above, 'site'), 'jobs/hourly')).toEqual([
      expect.stringContaining(`${above} can be written by anybody`),
    ]);
  });

  test('that leads in a circle is an error, not an endless loop', () => {
    const root = makeTemporaryRoot();
    symlinkSync('b', join(root, 'a'));
    symlinkSync('a', join(root, 'b'));
    expect(() => judge(root, 'a')).toThrow(/ELOOP/);
  });

  test('of the root itself changes nothing', () => {
    const real = makeTemporaryRoot({ 'jobs/a': '' });
    const other = makeTemporaryRoot();
    symlinkSync(real, join(other, 'site'));
    symlinkSync('a', join(real, 'jobs/b'));
    writeFileSync(join(real, 'jobs/c'), '', { mode: 0o600 });
    expect(judgeRoot(join(other, 'site'))).toBeNull();
    expect(judge(join(other, 'site'), 'jobs/b')).toEqual([]);
  });
});

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
