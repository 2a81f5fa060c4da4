import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readScriptFile, type ScriptFile } from '../../../src/discovery/script-file.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

test.each([0, 1, 65_536, 65_537, 1_048_576, 1_048_577, 2_500_000])(
  'of a file of %i bytes it knows the first 64 KB and the hash of all',
  (size) => {
    const content = Buffer.from('0123456789abcde'.repeat(Math.ceil(size / 15)).slice(0, size));
    const root = makeTemporaryRoot({ 'jobs/file': { content, mode: 0o644 } });
    const file = readScriptFile(join(root, 'jobs/file')) as ScriptFile;
    expect(file).toMatchObject({ isWhole: content.length <= 65_536, isExecutable: false });
    expect(file.head.equals(content.subarray(0, 65_536))).toBe(true);
    expect(file.hash()).toBe(sha256(content));
  },
);

test('one of 1 GB is not read as a whole, as it would be by each pass', () => {
  const root = makeTemporaryRoot({ 'jobs/large': executable('#!/bin/sh\n') });
  const path = join(root, 'jobs/large');
  truncateSync(path, 1024 ** 3);
  const content = readScriptFile(path) as ScriptFile;
  expect(content).toMatchObject({ isWhole: false, isExecutable: true });
  expect(content.hash()).toBeNull();
  expect(content.head.toString('latin1', 0, 10)).toBe('#!/bin/sh\n');
});

test('it tells executable files, folders and pipes apart, and does not wait for a pipe', () => {
  const root = makeTemporaryRoot({ 'jobs/program': executable('x') });
  execFileSync('mkfifo', [join(root, 'pipe')]);
  expect(readScriptFile(join(root, 'jobs/program'))).toMatchObject({ isExecutable: true });
  expect(readScriptFile(join(root, 'jobs'))).toBe('folder');
  expect(readScriptFile(join(root, 'pipe'))).toBe('special');
});

test('a missing file is an error of the file system', () => {
  expect(() => readScriptFile('/nowhere/at/all')).toThrow('ENOENT');
});
