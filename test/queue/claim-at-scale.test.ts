import { expect, test } from 'vitest';
import { claimJobs } from '../../src/queue/claim/claim.ts';
import { selectNextDue } from '../../src/queue/claim/waiting.ts';
import type { Database } from '../../src/store/store.ts';

import { explainQueries } from '../support/query-plan.ts';
import { makeStateOf, openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const AT = 2 ** 40;

function takeRare(db: Database) {
  const isWanted = (name: string) => name === 'rare';
  const selection = { groupLimit: null, isWanted, isFused: () => false };
  const claiming = { workerId: null, at: AT, defaultLeaseMs: 60_000, handlerOf: () => null };
  return claimJobs(db, async () => selection, claiming, 1);
}

/** What that costs among 1,000,000 jobs, `npm run bench -- crowding` shows. */
test('no query of a claim reads more than a few entries of an index', async () => {
  const root = makeTemporaryRoot();
  const { db } = await openStoreOf(root);
  const jobs = Array.from({ length: 50 }, (_, n) => ({
    name: `x${n}`,
    run_at: 1,
    priority: n % 3,
    group_key: null,
  }));
  await db
    .insertInto('jobs')
    .values([...jobs, { name: 'rare', run_at: 1, priority: 0, group_key: 'g' }])
    .execute();
  const plans = await explainQueries(makeStateOf(root).database, async (log) => {
    await takeRare(log);
    await selectNextDue(log, 0);
  });
  expect(plans.length).toBeGreaterThan(10);
  for (const plan of plans) {
    // Of the order in which jobs are taken, whose first entry is asked for.
    expect(plan).not.toMatch(/SCAN jobs(?! USING INDEX jobs_waiting$)/);
    expect(plan).not.toContain('TEMP B-TREE');
  }
});
