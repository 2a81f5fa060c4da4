import { closeSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { createRunFiles, removeRunFiles, runFilesOf } from '../../../src/execution/run-files.ts';
import { WarmFiles } from '../../../src/execution/warm/files.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

function makeState() {
  const state = stateFolderOf(makeTemporaryRoot());
  createStateFolder(state);
  return state;
}

test('only their owner can read the files of a run', () => {
  const files = runFilesOf(makeState(), '1.7');
  const before = process.umask(0);
  const { appendFd, fd } = createRunFiles(files);
  process.umask(before);
  for (const open of [appendFd, fd]) closeSync(open);
  expect(statSync(files.output).mode & 0o777).toBe(0o600);
  expect(statSync(files.temporary).mode & 0o777).toBe(0o700);
});

test('what an older run of the same key left is not taken over', () => {
  const files = runFilesOf(makeState(), '1.7');
  mkdirSync(files.temporary);
  writeFileSync(`${files.temporary}/old`, '');
  writeFileSync(files.output, 'old');
  writeFileSync(files.result, 'old');
  const { appendFd, fd } = createRunFiles(files);
  for (const open of [appendFd, fd]) closeSync(open);
  expect(statSync(files.output).size).toBe(0);
  expect(existsSync(files.result)).toBe(false);
  expect(readdirSync(files.temporary)).toEqual([]);
});

test('what cannot be removed, or is gone already, is nothing to fail for', () => {
  const state = makeState();
  // A file where a folder should be: nothing below it can be removed, whoever tries.
  const files = runFilesOf({ ...state, output: '/dev/null', results: '/dev/null', temporary: '/dev/null' }, '1.7');
  expect(() => removeRunFiles(files)).not.toThrow();
  expect(() => removeRunFiles(runFilesOf(state, '1.8'))).not.toThrow();
});

describe('of files that cannot all be opened', () => {
  const descriptors = () => readdirSync('/proc/self/fd').length;

  test('none stays open', () => {
    const state = makeState();
    let long = state.temporary;
    while (long.length < 4091 - 255) long += `/${'d'.repeat(200)}`;
    mkdirSync(long, { recursive: true });
    // Just short enough for itself, and too long for what is to be in it.
    const temporary = `${long}/${'t'.repeat(4091 - long.length)}`;
    const before = descriptors();
    expect(() => createRunFiles({ ...runFilesOf(state, '1.7'), temporary }, 'data')).toThrow('ENAMETOOLONG');
    expect(descriptors()).toBe(before);
  });

  test('a child leaves nothing', () => {
    const state = { ...makeState(), output: '/dev/null' };
    const before = descriptors();
    expect(() => new WarmFiles(state)).toThrow('ENOTDIR');
    expect(descriptors()).toBe(before);
    expect([state.results, state.temporary].flatMap((folder) => readdirSync(folder))).toEqual([]);
  });
});

test.each(['..', '../x', '1.1/../..', '/etc/passwd', '1.1\0', '1.1\n', '1.1.1', '.'])(
  '%j is the key of no run',
  (key) => {
    expect(() => runFilesOf(makeState(), key)).toThrow('is not the key of a run');
  },
);
