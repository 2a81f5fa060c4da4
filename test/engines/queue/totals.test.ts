import { expect, test } from 'vitest';
import type { JobTotals } from '../../../src/queue/api.ts';
import { countJobs, totalCounted } from '../../../src/queue/read/list.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { queryLog, testOfSqlite } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START, type TestQueue } from '../../support/queue.ts';
import { explainQueries } from '../../support/store.ts';

const none = {
  ...{ added: 0, runs: 0, succeeded: 0, failed: 0, timedOut: 0, crashed: 0, released: 0, stopped: 0 },
  ...{ leasesExpired: 0, buried: 0, kicked: 0 },
};

/** Some of everything that is counted; what `quick` is called is removed once it has ended. */
async function makeStory(): Promise<TestQueue> {
  const log = await openTestQueue({ archive: { quick: 'remove' } });
  const { queue, take, clock } = log;
  for (const name of ['mail/a?user=1', 'mail/a?user=2', 'quick', 'quick']) await queue.finish(await take(name));
  const failed = await take('mail/a', { retries: 1 });
  await queue.fail(failed, { mayRetry: true });
  clock.at += HOUR_MS;
  await queue.fail((await queue.claim('mail/a')) ?? 0);
  await queue.kick(failed.id);
  await queue.bury(failed.id);
  await queue.retry(await take('export'), { delay: '1h' });
  await take('late', { lease: '1s', retries: 3 });
  clock.at += HOUR_MS / 2;
  // Who looks takes back what has expired.
  await queue.claim('nobody');
  await queue.delete(await take('export'));
  const repeating = await take('again', { repeat: 'SCHEDULED, +1 HOUR' });
  await queue.finish(repeating);
  await take('runs');
  return log;
}

const wanted: readonly JobTotals[] = [
  { ...none, name: 'again', added: 1, runs: 1, succeeded: 1 },
  { ...none, name: 'export', added: 2, runs: 2, released: 1 },
  { ...none, name: 'late', added: 1, runs: 1, crashed: 1, leasesExpired: 1 },
  { ...none, name: 'mail/a', added: 3, runs: 4, succeeded: 2, failed: 2, buried: 1, kicked: 1 },
  { ...none, name: 'quick', added: 2, runs: 2, succeeded: 2 },
  { ...none, name: 'runs', added: 1, runs: 1 },
];

type Pruning = ReturnType<typeof pruningOf>;

test('all that has happened is counted by handler, whatever was deleted since', async () => {
  const { queue, store, clock } = await makeStory();
  expect(await queue.totals()).toEqual(wanted);
  expect(await totalCounted(store, await countJobs(store, '*', clock.at))).toEqual(wanted);
  expect(await queue.totals(['mail/*', 'quick'])).toEqual([wanted[3], wanted[4]]);
  expect(await queue.totals('nothing')).toEqual([]);
});

test('pruning takes nothing away, step by step, whatever goes first', async () => {
  for (const first of ['events', 'runs', 'jobs', 'oldest'] as const) {
    const { queue, store, root, clock } = await makeStory();
    const late = START + 1_000 * HOUR_MS;
    const steps = {
      events: (pruning: Pruning) => pruning.events(late, 1),
      runs: (pruning: Pruning) => pruning.runs({ succeeded: late, failed: late }, 1),
      jobs: (pruning: Pruning) => pruning.endedJobs(['finished', 'failed', 'cancelled'], late, 1),
      oldest: (pruning: Pruning) => pruning.oldest(1),
    };
    let deleted = 0;
    for (const step of [steps[first], ...Object.values(steps)]) {
      for (;;) {
        const { deleted: now } = await store.transaction(({ statements }) => step(pruningOf(statements)));
        expect(await queue.totals()).toEqual(wanted);
        expect(await totalCounted(store, await countJobs(store, '*', clock.at))).toEqual(wanted);
        if (now === 0) break;
        deleted += now;
      }
    }
    expect(deleted).toBeGreaterThan(9);
    const kept = queryLog<{ amount: number }>(
      root,
      `select count(*) as amount from (select 1 from events union all
      select 1 from runs where outcome <> 'running' union all select 1 from jobs where finished_at is not null) as kept`,
    );
    expect(kept).toEqual([{ amount: 0 }]);
  }
});

// How it answers is told by each engine in its own way.
testOfSqlite('the counts of pruned rows are read from indexes', async () => {
  const { root } = await makeStory();
  const late = START + 1_000 * HOUR_MS;
  const plans = await explainQueries(root, async (store) => {
    await store.jobs.delete([1, 2]);
    await pruningOf(store.statements).runs({ succeeded: late, failed: late }, 1);
    await pruningOf(store.statements).events(late, 1);
  });
  const kept = plans.filter((plan) => /GROUP BY/.test(plan));
  expect(kept).toHaveLength(3);
  for (const plan of kept) expect(plan).not.toMatch(/SCAN (?:jobs|runs|events|scripts)/);
});

test('runner jobs --totals tells it as a table and as JSON', async () => {
  const root = makeQueueSite();
  expect(jsonOf(await inRoot(root, 'jobs', '--totals', '--json'))).toEqual({ totals: [] });
  await inRoot(root, 'add', 'mail/welcome?user=7');
  await inRoot(root, 'add', 'export');
  await inRoot(root, 'hourly');
  await inRoot(root, 'job', '1', '2', 'delete');
  expect((await inRoot(root, 'jobs', '--totals')).stdout).toBe(
    'name          added  runs  succeeded  failed  timed out  crashed  released  stopped  leases expired  buried\n' +
      'export            1     1          1       0          0        0         0        0               0       0\n' +
      'mail/welcome      1     1          1       0          0        0         0        0               0       0\n' +
      '1 column hidden (kicked): widen to 115 columns or use --json\n',
  );
  expect(jsonOf(await inRoot(root, 'jobs', 'e*', '--totals', '--json'))).toEqual({
    totals: [{ ...none, name: 'export', added: 1, runs: 1, succeeded: 1 }],
  });
  expect((await inRoot(root, 'jobs', 'x', '--totals')).stdout).toBe('No jobs found in the queue, nor earlier ones.\n');
  expect(await inRoot(root, 'jobs', '--totals', '--count')).toMatchObject({ status: 2, stdout: '' });
});
