import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { claimJobs } from '../../src/queue/claim-jobs.ts';
import { selectNextDue } from '../../src/queue/waiting-jobs.ts';
import type { Database, Store } from '../../src/store/open-store.ts';
import { explainQueries } from '../support/query-plan.ts';
import { makeStateOf, openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const RARE = 300;
const FIRST_RUN_AT = 1_000_000;

/** So many of one name, and behind them, of a lower priority, some of another. */
async function makeCrowd(count: number): Promise<Store> {
  const store = await openStoreOf(makeTemporaryRoot());
  const add = (columns: string, rows: number) =>
    sql.raw(
      `insert into jobs (name, priority, run_at, created_at)
       with recursive s(n) as (select 1 union all select n + 1 from s where n < ${rows})
       select ${columns}, 0 from s`,
    );
  await sql.raw('drop trigger jobs_added').execute(store.db);
  await add(`'crowd', 500, ${FIRST_RUN_AT} + n`, count).execute(store.db);
  await add(`'rare', 100, 10`, RARE).execute(store.db);
  return store;
}

const situations = {
  'all of them wait': { at: 2 ** 40, wanted: 'crowd' },
  'none of them is due': { at: 500, wanted: 'rare' },
  'nobody here wants them': { at: 2 ** 40, wanted: 'rare' },
} as const;

type Situation = keyof typeof situations;

function take(db: Database, { at, wanted }: (typeof situations)[Situation]) {
  const isWanted = (name: string) => name === wanted;
  const selection = { groupLimit: null, isWanted, isFused: () => false };
  const claiming = { workerId: null, at, defaultLeaseMs: 60_000, handlerOf: () => null };
  return claimJobs(db, async () => selection, claiming, 1);
}

/** In milliseconds, of 50 claims. */
async function medianOf(store: Store, situation: Situation): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count < 50; count += 1) {
    const startedAt = performance.now();
    const claimed = await store.withoutSync((db) => take(db, situations[situation]));
    times.push(performance.now() - startedAt);
    expect(claimed.map(({ job }) => job.name)).toEqual([situations[situation].wanted]);
  }
  return times.toSorted((one, other) => one - other)[25] as number;
}

test('a claim among 1,000,000 waiting jobs costs what it does among 10,000', async () => {
  const [few, many] = [await makeCrowd(10_000), await makeCrowd(1_000_000)];
  for (const situation of Object.keys(situations) as Situation[]) {
    const [ofFew, ofMany] = [await medianOf(few, situation), await medianOf(many, situation)];
    // What reads them all takes a hundred times as long.
    const words = `${situation}: ${ofFew.toFixed(3)} ms of 10,000, ${ofMany.toFixed(3)} ms of 1,000,000`;
    expect(ofMany / ofFew, words).toBeLessThan(5);
  }
}, 240_000);

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
    await take(log, situations['nobody here wants them']);
    await selectNextDue(log, 0);
  });
  expect(plans.length).toBeGreaterThan(10);
  for (const plan of plans) {
    // Of the order in which jobs are taken, whose first entry is asked for.
    expect(plan).not.toMatch(/SCAN jobs(?! USING INDEX jobs_waiting$)/);
    expect(plan).not.toContain('TEMP B-TREE');
  }
});
