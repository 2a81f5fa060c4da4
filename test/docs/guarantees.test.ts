import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../support/doc-examples.ts';

/** They tell where to look, how it is built, what was measured, or how others did it; `reliability.md` has a test of its own. */
const without = new Set([
  ...['README.md', 'architecture.md', 'queue-conformance.md', 'reliability.md', 'scaling.md'],
  ...['coming-from-beanstalkd.md', 'coming-from-bedrock.md', 'coming-from-laterjob.md'],
]);
const pages = readdirSync(join(repository, 'docs')).filter((name) => name.endsWith('.md') && !without.has(name));
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');

const HEADING = '\n\n## Guarantees\n\n| guarantee | tested by |\n|---|---|\n';

/** The rows of the table with which a page ends; none where it ends otherwise. */
const rowsOf = (page: string): string[] => (read(`docs/${page}`).split(HEADING)[1] ?? '').trimEnd().split('\n');

test.each(pages)('%s ends with its guarantees, and there is a test of each', (page) => {
  const rows = rowsOf(page);
  expect(rows.length).toBeGreaterThanOrEqual(3);
  expect(rows.length).toBeLessThanOrEqual(10);
  for (const row of rows) {
    const [, path, title = ''] = /^\| [A-Z`\d].+ \| `(test\/[\w./-]+\.test\.ts)`: (.+) \|$/.exec(row) ?? [];
    expect(path, row).toBeDefined();
    expect(titlesIn(read(path as string)), row).toContain(title);
  }
});

/** Behind `test(` or `describe(`, behind the table of a `test.each`, or alone in their line. */
function titlesIn(source: string): string[] {
  const lines = source.matchAll(
    /^ *(?:(?:test|describe)\w*\b.*\(|.*\](?: as const)?\)\(|)(['"`])(.+)\1,(?: (?:async )?(?:\(|\w+ =>).*)?$/gm,
  );
  return [...lines].map(([, , title = '']) => title);
}

test('no guarantee stands on two pages', () => {
  const all = pages.flatMap(rowsOf).map((row) => row.split(' | ')[0]);
  expect(all.filter((each, index) => all.indexOf(each) !== index)).toEqual([]);
});
