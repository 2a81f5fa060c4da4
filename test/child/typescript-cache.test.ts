import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compileCached } from '../../src/child/typescript/cache.ts';
import { runPass, runPassAgain } from '../support/run-pass.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const SCRIPT = `const text: string = 'first';\nconsole.log(text);\n`;

test('the second run takes what the first one compiled', () => {
  const first = runPass({ 'a.ts': SCRIPT });
  const folder = join(first.root, '.runner/cache/typescript');
  const [entry = ''] = readdirSync(folder);
  const kept = readFileSync(join(folder, entry), 'utf8');
  // Behind the source that it was made from; nothing but the compiled code is altered.
  const end = kept.lastIndexOf("'first'");
  writeFileSync(join(folder, entry), `${kept.slice(0, end)}'cached'${kept.slice(end + 7)}`);
  expect(first.run('a').output).toBe('first\n');
  expect(runPassAgain(first.root).run('a').output).toBe('cached\n');
});

test('a changed script is compiled anew', () => {
  const { root } = runPass({ 'a.ts': SCRIPT });
  writeFileSync(join(root, 'jobs/hourly/a.ts'), SCRIPT.replace('first', 'second'));
  expect(runPassAgain(root).run('a').output).toBe('second\n');
});

test('without a writable cache a script runs all the same, and says nothing of it', () => {
  const files = { '.runner/cache/typescript': 'not a folder' };
  const { status, run } = runPass({ 'a.ts': SCRIPT }, { files });
  expect({ status, output: run('a').output }).toEqual({ status: 0, output: 'first\n' });
});

test('a damaged entry is compiled anew', () => {
  const { root } = runPass({ 'a.ts': SCRIPT });
  const folder = join(root, '.runner/cache/typescript');
  for (const entry of readdirSync(folder)) writeFileSync(join(folder, entry), 'garbage');
  expect(runPassAgain(root).run('a').output).toBe('first\n');
});

test('two paths that share an entry never get each other’s code', () => {
  const folder = join(makeTemporaryRoot(), 'cache');
  // Two names with one FNV-1a hash of 32 bits, known from the hash's own documentation.
  const compile = (path: string, source: string) =>
    compileCached(folder, path, source, () => ({ format: 'module', code: `compiled ${source}` }));
  for (const [path, source] of [
    ['costarring', 'one'],
    ['liquid', 'other'],
    ['costarring', 'one'],
  ] as const) {
    expect(compile(path, source).code).toBe(`compiled ${source}`);
  }
  expect(readdirSync(folder)).toHaveLength(1);
});
