import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeLinkedSite } from '../../support/linked-site.ts';
import { testOfSqlite } from '../../support/log.ts';
import { writeFiles } from '../../support/root.ts';

/* How a chain is shown: `why`, `why --json`, `list --json`. */

interface ToldScript {
  readonly script: string;
  readonly state: string;
  readonly at: string | null;
  readonly level: number;
  readonly links: readonly { readonly kind: string; readonly script: string; readonly isAwaited: boolean }[];
}

type Site = ReturnType<typeof makeLinkedSite>;

/** A line for each script: its level, name and state, and what it waits for, with `!` if that has not come. */
function chainOf(site: Site, script: string): readonly string[] | null {
  const { chain } = JSON.parse(site.call('why', script, '--json').stdout);
  if (chain === null) return null;
  return (chain.scripts as readonly ToldScript[]).map(({ script: name, state, level, links }) => {
    const told = links.map(({ kind, script: other, isAwaited }) => `${kind} ${other}${isAwaited ? '!' : ''}`);
    return [`${level} ${name}`, state, ...told].join(' · ');
  });
}

test('a chain has all scripts before and behind one, in order, with their states and what each waits for', () => {
  const site = makeLinkedSite({
    'daily/fetch': [],
    'daily/import': ['@after fetch hourly/dump'],
    'daily/alarm': ['@after-failure import'],
    'daily/report': ['@after import'],
    'daily/always': ['@always fetch'],
    'hourly/dump': [],
    'hourly/alone': [],
  });
  expect(chainOf(site, 'daily/import')).toEqual([
    '0 daily/fetch · never',
    '0 hourly/dump · never',
    '1 daily/import · never · after daily/fetch · after hourly/dump',
    '2 daily/alarm · never · afterFailure daily/import',
    '2 daily/report · never · after daily/import',
  ]);
  site.fail('fetch');
  site.ran('daily');
  expect(chainOf(site, 'daily/fetch')).toEqual([
    '0 daily/fetch · failed',
    '1 daily/always · succeeded · always daily/fetch',
    '1 daily/import · waiting · after daily/fetch!',
    '2 daily/alarm · waiting · afterFailure daily/import!',
    '2 daily/report · waiting · after daily/import!',
  ]);
  site.call('pause', 'hourly/dump');
  site.call('disable', 'daily/alarm');
  expect(chainOf(site, 'hourly/dump')).toEqual([
    '0 hourly/dump · paused',
    '1 daily/import · waiting · after hourly/dump!',
    '2 daily/report · waiting · after daily/import!',
  ]);
  expect(chainOf(site, 'hourly/alone')).toBeNull();
  const { tiers } = JSON.parse(site.call('list', '--json').stdout);
  const listed = tiers.flatMap(({ scripts }: { scripts: readonly object[] }) => scripts);
  expect(listed).toContainEqual(
    expect.objectContaining({
      script: 'daily/import',
      links: [
        { kind: 'after', script: 'daily/fetch' },
        { kind: 'after', script: 'hourly/dump' },
      ],
    }),
  );
  expect(listed).toContainEqual(expect.objectContaining({ script: 'daily/fetch', links: [] }));
});

test('why shows a chain of several links, each script indented by its place, and no chain of one link', () => {
  const site = makeLinkedSite({ 'daily/a': [], 'daily/b': ['@after a'], 'daily/c': ['@after b', '@always a'] });
  site.fail('b');
  site.ran('daily');
  const told = site.call('why', 'daily/b').stdout.replaceAll(/\d+ \w+ \d+:\d+/g, 'TIME');
  expect(told).toContain(
    `
chain
  daily/a · succeeded TIME
    daily/b (this one) · failed TIME · after daily/a
      daily/c · waits since TIME · after daily/b; after any end of daily/a
`,
  );
  rmSync(join(site.root, 'jobs/daily/c.sh'));
  expect(site.call('why', 'daily/b').stdout).not.toContain('chain');
});

test('a command that others wait for is part of their chain, and has it itself', () => {
  const site = makeLinkedSite({ 'daily/x': ['@after exec/dump'] });
  site.call('exec', 'dump', '--', 'false');
  site.ran('daily');
  const told = ['0 exec/dump · failed', '1 daily/x · waiting · after exec/dump!'];
  expect(chainOf(site, 'daily/x')).toEqual(told);
  expect(chainOf(site, 'exec/dump')).toEqual(told);
});

test('a script that is refused for a circle has no chain', () => {
  const site = makeLinkedSite({ 'daily/a': ['@after b'], 'daily/b': ['@after a'] });
  expect(chainOf(site, 'daily/a')).toBeNull();
});

test('of a very long chain, the nearest scripts are shown, and the rest is counted', () => {
  const names = Array.from({ length: 60 }, (_, index) => `s${String(index).padStart(2, '0')}`);
  const site = makeLinkedSite({});
  writeFiles(
    site.root,
    Object.fromEntries(
      names.map((name, index) => [`jobs/daily/${name}.sh`, `#!/bin/sh\n# @after ${names[index - 1] ?? 'start'}\n`]),
    ),
  );
  writeFiles(site.root, { 'jobs/daily/start.sh': '#!/bin/sh\n' });
  const { chain } = JSON.parse(site.call('why', 'daily/s30', '--json').stdout);
  expect(chain.scripts.map(({ script }: ToldScript) => script)).toEqual(
    names.slice(15, 46).map((name) => `daily/${name}`),
  );
  expect(chain.more).toBe(61 - 31);
});

testOfSqlite('without a readable log, the states of a chain are not known', () => {
  const site = makeLinkedSite({ 'daily/a': [], 'daily/b': ['@after a'] });
  site.ran('daily');
  for (const end of ['-wal', '-shm']) rmSync(join(site.root, `.runner/activity.db${end}`), { force: true });
  writeFileSync(join(site.root, '.runner/activity.db'), 'no log');
  expect(chainOf(site, 'daily/a')).toEqual(['0 daily/a · unknown', '1 daily/b · unknown · after daily/a']);
});
