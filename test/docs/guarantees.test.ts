import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../support/site.ts';

const read = (path: string): string => readFileSync(join(repository, path), 'utf8');
const page = read('test/README.md');
const [faults = '', topics = ''] = page.split('\n## By topic\n');

test('each guarantee names a test file that is there', () => {
  const named = new Set(page.match(/test\/[\w./-]+\.ts/g));
  expect(named.size).toBeGreaterThan(100);
  expect([...named].filter((path) => !existsSync(join(repository, path)))).toEqual([]);
});

test('each test of a fault has its guarantee', () => {
  const paths = ['test/faults', 'test/integration/faults', 'test/machines'].flatMap((folder) =>
    readdirSync(join(repository, folder)).map((name) => `${folder}/${name}`),
  );
  // Two look at the tools of the others, one at the spool's own folder.
  const tools = ['fault-points', 'invariants', 'spool-other-user'];
  const untold = paths.filter((path) => path.endsWith('.test.ts') && !page.includes(path));
  expect(untold.filter((path) => !tools.some((tool) => path.includes(tool)))).toEqual([]);
});

const rowsOf = (text: string): string[] => text.split('\n').filter((line) => /^\| (?!guarantee|problem|-)/.test(line));

test('each guarantee of a topic names the title of its test', () => {
  const rows = rowsOf(topics);
  expect(rows.length).toBeGreaterThan(150);
  const untested = rows.filter((row) => {
    const [, path = '', title = ''] = /^\| [A-Z`\d].+ \| `(test\/[\w./-]+\.test\.ts)`: (.+) \|$/.exec(row) ?? [];
    return !existsSync(join(repository, path)) || !titlesIn(read(path)).includes(title);
  });
  expect(untested).toEqual([]);
});

/** Behind `test(` or `describe(`, behind the table of a `test.each`, or alone in their line. */
function titlesIn(source: string): string[] {
  const lines = source.matchAll(
    /^ *(?:(?:test|describe)\w*\b.*\(|.*\](?: as const)?\)\(|)(['"`])(.+)\1,(?: (?:async )?(?:\(|\w+ =>).*)?$/gm,
  );
  return [...lines].map(([, , title = '']) => title);
}

test('no guarantee is listed twice', () => {
  const all = [faults, topics].flatMap(rowsOf).map((row) => row.split(' | ')[0]);
  expect(all.filter((each, index) => all.indexOf(each) !== index)).toEqual([]);
});
