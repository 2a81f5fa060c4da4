import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronEnv, type Pass, runNode, runPass, runPassAgain } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { executable } from '../../support/root.ts';

/** What a call has asked of the log, and which files it has loaded: modules of `dist/`, as Node reads them. */
interface Cost {
  readonly statements: readonly string[];
  readonly writes: number;
  readonly files: readonly string[];
  readonly looks: number;
}

const preload = new URL('./cost-of-call.cjs', import.meta.url).pathname;

function measure({ root }: Pass): Cost {
  const log = join(root, 'cost');
  const pass = runPassAgain(root, { NODE_OPTIONS: `--require=${preload}`, COST_LOG: log });
  expect([pass.status, pass.stderr]).toEqual([0, '']);
  return JSON.parse(readFileSync(log, 'utf8')) as Cost;
}

/** The least of three: on a busy machine a script is not short, and then its beginning is written by itself. */
function leastOf<T extends { readonly writes: number }>(measureOnce: () => T): T {
  return [1, 2, 3].map(measureOnce).sort((one, other) => one.writes - other.writes)[0] as T;
}

test('a pass with one short script asks the log little, and loads few files', () => {
  // The first pass makes the log, and runs the checks, which are not due again a moment later.
  const first = runPass({ 'a.sh': executable('#!/bin/sh\necho done\n') });
  runPassAgain(first.root);
  const { statements, writes, files, looks } = leastOf(() => measure(first));
  expect(statements.filter((text) => text.startsWith('insert into runs'))).toHaveLength(1);
  expect(statements.length, statements.join('\n')).toBeLessThanOrEqual(33);
  expect(writes, statements.join('\n')).toBeLessThanOrEqual(2);
  expect(files.length, files.join('\n')).toBeLessThanOrEqual(21);
  expect(looks, 'a look for .env').toBe(1);
});

test('a pass that finds nothing wrong asks the log four times more, and loads one file more, when its checks are due', () => {
  const { before, after, writes } = leastOf(() => {
    const first = runPass({ 'a.sh': executable('#!/bin/sh\necho done\n') });
    const before = measure(runPassAgain(first.root));
    changeLog(first.root, "update chores set done_at = 0 where name = 'checks'");
    const after = measure(first);
    return { before, after, writes: before.writes + after.writes };
  });
  expect(after.statements.length, after.statements.join('\n')).toBeLessThanOrEqual(before.statements.length + 4);
  expect(writes).toBe(2 * before.writes + 1);
  expect(after.files.length, after.files.join('\n')).toBeLessThanOrEqual(before.files.length + 1);
});

test.each([
  ['hourly', { files: 21, hasKysely: false }],
  ['add hourly-mail', { files: 22, hasKysely: false }],
  ['work', { files: 24, hasKysely: false }],
  ['status', { files: 10, hasKysely: true }],
  ['why hourly/a', { files: 10, hasKysely: true }],
  ['report', { files: 10, hasKysely: true }],
  ['list', { files: 10, hasKysely: true }],
])('%s loads few files, and the builder of queries only to read the log', (line, most) => {
  const first = runPass({ 'a.sh': executable('#!/bin/sh\necho done\n') });
  const log = join(first.root, 'cost');
  const env = { ...cronEnv(first.root), NODE_OPTIONS: `--require=${preload}`, COST_LOG: log };
  expect(runNode([commandPath, ...line.split(' ')], { cwd: first.root, env })).toMatchObject({ status: 0 });
  const { files } = JSON.parse(readFileSync(log, 'utf8')) as Cost;
  const hasKysely = files.some((file) => readFileSync(file, 'utf8').includes('kysely:error'));
  expect(hasKysely, files.join('\n')).toBe(most.hasKysely);
  expect(files.length, files.join('\n')).toBeLessThanOrEqual(most.files);
});
