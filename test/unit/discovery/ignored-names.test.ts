import { expect, test } from 'vitest';
import { reasonToIgnore } from '../../../src/discovery/jobs-folder.ts';

test.each([
  ['.hidden.sh', 'hidden: its name begins with a dot'],
  ['_shared.ts', 'its name begins with _'],
  ['types.d.ts', 'a type declaration, which does nothing'],
  ['types.d.mts', 'a type declaration, which does nothing'],
  ['clean.test.ts', 'a test'],
  ['clean.test.sh', 'a test'],
  ['clean.sh~', 'a backup copy: its name ends in ~'],
  ['clean.sh.bak', 'a backup copy: its name ends in .bak or .orig'],
  ['clean.orig', 'a backup copy: its name ends in .bak or .orig'],
  ['clean.sh.swp', 'the swap file of an editor'],
  ['clean.sh.new', 'a new version not in use yet: its name ends in .new'],
  ['clean.rpmsave', 'left behind by rpm'],
  ['clean.sh.rpmnew', 'left behind by rpm'],
  ['clean.dpkg-old', 'left behind by dpkg'],
  ['clean.sh.disabled', 'disabled: its name ends in .disabled'],
  ['README', 'documentation'],
  ['readme.md', 'documentation'],
  ['notes.txt', 'text'],
  ['package.json', 'data'],
  ['node_modules', 'node_modules contains packages, not scripts'],
])('%s is no script', (name, reason) => {
  expect(reasonToIgnore(name)).toBe(reason);
});

test.each([
  'clean.sh',
  'clean-tmp.ts',
  'man-db',
  'd.ts',
  'test.ts',
  'new',
  'clean.new.sh',
  'unreadme.sh',
  'bak.sh',
  'a.b.c.js',
  'x',
  'größe.py',
  'disabled',
  'contest.ts',
])('%s may be one', (name) => {
  expect(reasonToIgnore(name)).toBeNull();
});
