import { expect, test } from 'vitest';
import { makeLinkedSite } from '../../support/linked-site.ts';
import { changeLog } from '../../support/log.ts';

const DAY_MS = 86_400_000;

test('a script that waits for a command in vain is told of, whatever keeps the log', () => {
  const site = makeLinkedSite({
    'hourly/of-failed': ['@after exec/failed'],
    'hourly/of-never': ['@after exec/never'],
    'hourly/of-used': ['@after exec/used'],
  });
  site.call('exec', 'used', '--', 'true');
  expect(site.ran('hourly')).toEqual(['of-used']);
  site.call('exec', 'failed', '--', 'false');
  expect(site.ran('hourly')).toEqual([]);
  changeLog(site.root, `update jobs set run_at = run_at - ${DAY_MS} where state = 'queued'`);
  const { checks } = JSON.parse(site.call('check', '--json').stdout);
  const told = checks.filter(({ code }: { code: string }) => code === 'script-overdue');
  expect(told.map(({ subject, message }: Record<string, string>) => `${subject}: ${message}`)).toEqual([
    expect.stringMatching(
      /^hourly\/of-failed: .* has waited for 1d(?: \d+s)?: it waits for exec\/failed.*, which failed \d/,
    ),
    expect.stringMatching(
      /^hourly\/of-never: .* has waited for 1d(?: \d+s)?: it waits for exec\/never, which has never run$/,
    ),
  ]);
});
