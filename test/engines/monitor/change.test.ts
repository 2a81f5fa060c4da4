// On a fleet a script runs once in a slot, however often its tier is called: this is about SQLite.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { usualOf } from '../../../src/store/statements/monitor/usual.ts';
import { cronEnv, runCommand, runPass, runPassAgain } from '../../support/command.ts';
import { changeLog, testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

const [old, next] = ['aa'.repeat(32), 'bb'.repeat(32)];

test('a change is what has another content than the last success, be it one that was there before', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('hourly', 0);
  const add = (at: number, content_hash: string | null, outcome: 'succeeded' | 'failed') =>
    log.addRun('hourly/a', at, { worker_id: pass, content_hash, outcome });
  const change = () => usualOf(log.store.statements).change({ script: 'hourly/a' });
  expect(await change()).toBeNull();
  await add(1000, old, 'failed');
  expect(await change()).toBeNull();
  await add(2000, old, 'succeeded');
  await add(3000, old, 'failed');
  expect(await change()).toBeNull();
  const first = await add(4000, next, 'failed');
  const second = await add(5000, next, 'failed');
  const changed = { changedAt: 4000, lastSuccessAt: 2000 };
  expect(await usualOf(log.store.statements).change({ runId: first })).toEqual(changed);
  expect(await usualOf(log.store.statements).change({ runId: second })).toEqual(changed);
  await add(6000, null, 'failed');
  expect(await change()).toBeNull();
  await add(7000, next, 'succeeded');
  expect(await change()).toBeNull();
  await add(8000, old, 'failed');
  expect(await change()).toEqual({ changedAt: 8000, lastSuccessAt: 7000 });
});

test('what a script imports is part of its content', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.ts': `import { total } from '../../lib/total.js';\nconsole.log(total);\n`,
    'jobs/hourly/b.mjs': `console.log('./nothing.js');\n`,
    'jobs/hourly/c.cjs': `const x = require('../../parts');\n`,
    'lib/total.ts': `export * from './sum.ts';\nimport '../jobs/hourly/a.ts';\n`,
    'lib/sum.ts': 'export const total = 1;\n',
    'lib/unused.ts': '1;\n',
    'parts/index.js': '1;\n',
  });
  const hashes = async () => {
    const { tiers } = await discover(root, { ...defaultSettings, allowUnsafe: true }, { tier: 'hourly' });
    return new Map(tiers[0]?.scripts.map(({ name, contentHash }) => [name, contentHash]));
  };
  const before = await hashes();
  expect(await hashes()).toEqual(before);
  const changedBy = async (path: string, content: string): Promise<string[]> => {
    const earlier = await hashes();
    writeFileSync(join(root, path), content);
    return [...(await hashes())].flatMap(([name, hash]) => (hash === earlier.get(name) ? [] : name));
  };
  expect(await changedBy('lib/sum.ts', 'export const total = 22;\n')).toEqual(['hourly/a']);
  expect(await changedBy('lib/unused.ts', '22;\n')).toEqual([]);
  expect(await changedBy('parts/index.js', '22;\n')).toEqual(['hourly/c']);
  expect(await changedBy('jobs/hourly/b.mjs', '22;\n')).toEqual(['hourly/b']);
  // What could be an import and is none holds nobody up.
  expect(await changedBy('jobs/hourly/b.mjs', `'./'; ${`import${' '.repeat(15_000)}`.repeat(4)}`)).toEqual([
    'hourly/b',
  ]);
  expect(before.get('hourly/b')).toMatch(/^[\da-f]{64}$/);
});

// With a server, a second call within the hour runs nothing.
testOfSqlite(
  'the first failure after a change says so, and an unusual run in what it is unlike the others',
  async () => {
    const { root } = runPass(
      {
        'a.mjs': `import { total } from '../../lib.mjs';\nexport default ({ log }) => log.count('orders', total);\n`,
        'b.mjs': '',
      },
      { files: { 'lib.mjs': 'export const total = 3;\n' } },
    );
    // As if both had done this all day.
    changeLog(
      root,
      `insert into runs (job_id, script_id, version_id, attempt, outcome, started_at, finished_at, duration_us)
     with recursive n(i) as (select 1 union all select i + 1 from n where i < 20)
     select job_id, script_id, version_id, 1, 'succeeded', started_at - i * 60000, finished_at, 41000000
     from runs cross join n`,
    );
    changeLog(root, 'update runs set duration_us = 41000000');
    changeLog(root, 'delete from counts');
    changeLog(root, `insert into counts select id, 'orders', 120 from runs`);
    const second = runPassAgain(root);
    expect(second.run('a').outcome).toBe('succeeded');
    const runner = (...args: string[]) =>
      runCommand([...args, '--root', root], { cwd: '/', env: { ...cronEnv(root), COLUMNS: '160' } }).stdout;
    const id = String(second.run('a').id);
    const shown = runner('show', id);
    expect(shown).toMatch(/^\d+ms instead of its usual 41s$/m);
    expect(shown).toMatch(/^orders: 3 instead of its usual 120$/m);
    expect(shown).toMatch(/^counts +orders 3$/m);
    const { deviations, counts, change } = JSON.parse(runner('show', id, '--json'));
    expect(deviations).toMatchObject([
      { measure: 'count', name: 'orders', value: 3, usual: 120, runs: 21, since: null },
      { measure: 'duration', name: '', usual: 41_000 },
    ]);
    expect([counts, change]).toEqual([{ orders: 3 }, null]);
    expect(runner('report')).toContain('orders: 3 instead of its usual 120');
    expect(runner('report', 'hourly/a')).toContain('instead of its usual 41s');
    expect(runner('why', 'hourly/a')).toMatch(/unlike those before: orders: 3 instead of its usual 120; \d+ms instead/);

    writeFileSync(join(root, 'lib.mjs'), 'export const totals = 3;\n');
    const failed = runPassAgain(root).run('a');
    expect(failed.outcome).toBe('failed');
    const changed = /its content has changed: it last succeeded .+, and the new content first ran /;
    expect(runner('show', String(failed.id))).toMatch(changed);
    expect(runner('why', 'hourly/a')).toMatch(changed);
    expect(JSON.parse(runner('show', String(failed.id), '--json')).change).toEqual({
      changedAt: new Date(failed.started_at).toISOString(),
      lastSuccessAt: new Date(second.run('a').started_at).toISOString(),
    });
  },
);
