import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../support/doc-examples.ts';

const page = readFileSync(join(repository, 'docs/reliability.md'), 'utf8');
const named = new Set(page.match(/test\/[\w./-]+\.ts/g));

test('each promise names a test that is there', () => {
  expect(named.size).toBeGreaterThan(25);
  for (const path of named) expect(existsSync(join(repository, path)), path).toBe(true);
});

test('each fault that is tested stands for a promise, on this page or another one', () => {
  const faults = readdirSync(join(repository, 'test/faults'))
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `test/faults/${name}`);
  // Two look at the tools of the others, one at the spool's own folder.
  const tools = ['fault-points', 'invariants', 'spool-other-user.root'];
  const docs = join(repository, 'docs');
  const names = readdirSync(docs).filter((name) => name.endsWith('.md'));
  const pages = names.map((name) => readFileSync(join(docs, name), 'utf8')).join();
  const untold = faults.filter((path) => !pages.includes(path));
  expect(untold.filter((path) => !tools.some((tool) => path.includes(tool)))).toEqual([]);
});
