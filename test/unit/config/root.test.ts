import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { UsageError } from '../../../src/system/base/errors.ts';
import { findRoot, type RootSearch } from '../../../src/system/place/root.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

function makeFolderWithoutJobs(): string {
  const folder = mkdtempSync(join(tmpdir(), 'runner-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function search(changes: Partial<RootSearch>): string {
  return findRoot({ option: undefined, variable: undefined, cwd: '/', ...changes });
}

test('--root wins over RUNNER_ROOT and the current folder', () => {
  const [root, other] = [makeTemporaryRoot(), makeTemporaryRoot()];
  expect(search({ option: root, variable: other, cwd: other })).toBe(root);
});

test('RUNNER_ROOT wins over the current folder', () => {
  const [root, other] = [makeTemporaryRoot(), makeTemporaryRoot()];
  expect(search({ variable: root, cwd: other })).toBe(root);
});

test('a relative --root counts from the current folder', () => {
  const root = makeTemporaryRoot();
  expect(search({ option: '..', cwd: join(root, 'jobs') })).toBe(root);
});

test('an empty RUNNER_ROOT is none', () => {
  const root = makeTemporaryRoot();
  expect(search({ variable: '', cwd: root })).toBe(root);
});

test('without either, the nearest folder upward with jobs is the root', () => {
  const root = makeTemporaryRoot();
  const deep = join(root, 'jobs', 'hourly', 'deep');
  mkdirSync(deep, { recursive: true });
  expect(search({ cwd: deep })).toBe(root);
});

test('a file called jobs makes no root', () => {
  const root = makeTemporaryRoot();
  const inside = join(root, 'inside');
  mkdirSync(inside);
  writeFileSync(join(inside, 'jobs'), '');
  expect(search({ cwd: inside })).toBe(root);
});

test('no root anywhere is wrong use, with the cure', () => {
  const cwd = makeFolderWithoutJobs();
  expect(() => search({ cwd })).toThrow(UsageError);
  expect(() => search({ cwd })).toThrow(
    `No jobs folder in ${cwd} or above it. Create one with \`npx folder-runner init\`, or name the folder that contains it with --root or RUNNER_ROOT.`,
  );
});

test.each([
  ['--root', 'option'],
  ['RUNNER_ROOT', 'variable'],
])('%s without a jobs folder is wrong use, and nothing else is taken', (name, key) => {
  const [folder, cwd] = [makeFolderWithoutJobs(), makeTemporaryRoot()];
  expect(() => search({ [key]: folder, cwd })).toThrow(
    new UsageError(
      `${name} names ${folder}, which has no jobs folder. Create one there with \`npx folder-runner init\`.`,
    ),
  );
});
