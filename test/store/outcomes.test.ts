import { expect, test } from 'vitest';
import { isFailure, outcomes } from '../../src/store/schema.ts';
import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

test('what was given back is neither a success nor a failure', () => {
  const others = outcomes.filter((outcome) => !isFailure(outcome));
  expect(others).toEqual(['succeeded', 'released', 'running']);
});

test('the log takes each of them, and no other', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  const run = { job_id: 1, script: 'hourly/a', tier: 'hourly', attempt: 1, started_at: 0 };
  await db.insertInto('jobs').values({ name: 'hourly/a', tier: 'hourly' }).execute();
  const add = (outcome: string) =>
    db
      .insertInto('runs')
      .values({ ...run, outcome: outcome as 'failed' })
      .execute();
  for (const outcome of outcomes) await add(outcome);
  await expect(add('given-back')).rejects.toThrow('CHECK constraint failed');
});
