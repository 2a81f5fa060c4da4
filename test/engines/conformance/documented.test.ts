import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../../support/site.ts';
import { departures } from './departures.ts';

test('the page names every difference from Bedrock, and no other', () => {
  const page = readFileSync(join(repository, 'docs/coming-from.md'), 'utf8');
  const list = page.split('\n### Differences from Bedrock::Jobs\n')[1]?.split('\n\n')[0] ?? '';
  const shown = list.replace(/^- /gm, '').replace(/\s+/g, ' ');
  const differences = new Set(Object.values(departures).map(([difference]) => difference));
  expect([...differences].filter((difference) => !shown.includes(difference))).toEqual([]);
  expect([...differences].reduce((rest, difference) => rest.replace(difference, ''), shown).trim()).toBe('');
});
