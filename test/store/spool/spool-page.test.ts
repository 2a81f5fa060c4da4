import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { makeSpooledEnd, makeSpooledRun, makeSpoolHeader } from '../../support/spool.ts';

const page = readFileSync(new URL('../../../docs/spool.md', import.meta.url), 'utf8');
const [worker, run, end, finished] = (page.split('\n## The file\n')[1] ?? '')
  .split('\n| key | meaning |\n')
  .slice(1)
  .map((table) => keysIn(table.split('\n\n')[0] ?? ''));

/** The names in the first column. */
function keysIn(table: string): string[] {
  const cells = [...table.matchAll(/^\| (`[^|]+`) \|/gm)].map(([, cell = '']) => cell);
  return cells.flatMap((cell) => cell.replaceAll('`', '').split(', '));
}

const sorted = (names: readonly string[] | undefined): string[] => [...(names ?? [])].sort();
const keysOf = (record: object): string[] => sorted(Object.keys(record));

test('the page names every key of every kind of line', () => {
  const claim = { id: 1, token: '1.1', runId: 1 };
  expect(sorted(worker)).toEqual(keysOf(makeSpoolHeader()));
  const forOne = { onlyHost: 'web-1', dueAt: 1 };
  expect(sorted(run)).toEqual(keysOf({ ...makeSpooledRun('run-0001'), ...forOne }));
  const both = [...new Set([...(run ?? []), ...(end ?? [])])];
  expect(sorted(both)).toEqual(keysOf({ ...makeSpooledEnd(claim), ...forOne }));
  expect(sorted(finished)).toEqual(['finishedAt', 'reason', 'type']);
});
