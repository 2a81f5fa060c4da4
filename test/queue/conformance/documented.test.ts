import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../../support/doc-examples.ts';
import { departures } from './departures.ts';

test('the page names every departure from Bedrock with its reason, and no other', () => {
  const page = readFileSync(join(repository, 'docs/queue-conformance.md'), 'utf8');
  const rows = [...page.matchAll(/^\| (\d+) \| (.+) \|$/gm)];
  const shown = Object.fromEntries(rows.map(([, number, why]) => [number, why]));
  expect(shown).toEqual(departures);
  expect(rows).toHaveLength(Object.keys(departures).length);
});
