import { expect, test } from 'vitest';
import { readScriptHistory } from '../../src/queue/read/history.ts';
import { explainQueries } from '../support/query-plan.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { running, writeLog } from '../support/written-log.ts';

test('a script that never ran has no past', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  const own = await addRun('hourly/a', 1_000, running);
  await addRun('hourly/b', 500);
  expect(await readScriptHistory(db, 'hourly/a', own)).toEqual({
    lastSuccess: null,
    previouslyCrashed: false,
  });
});

test('the last success is the newest of the earlier runs that succeeded', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/a', 1_000);
  await addRun('hourly/a', 2_000);
  await addRun('hourly/a', 3_000, { outcome: 'failed' });
  const own = await addRun('hourly/a', 4_000, running);
  expect(await readScriptHistory(db, 'hourly/a', own)).toEqual({
    lastSuccess: 2_000,
    previouslyCrashed: false,
  });
});

test('only the very last run before this one tells whether it crashed', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/a', 1_000);
  const crashed = await addRun('hourly/a', 2_000, { outcome: 'crashed' });
  const own = await addRun('hourly/a', 3_000, running);
  expect(await readScriptHistory(db, 'hourly/a', own)).toEqual({
    lastSuccess: 1_000,
    previouslyCrashed: true,
  });
  expect(await readScriptHistory(db, 'hourly/a', crashed)).toMatchObject({
    previouslyCrashed: false,
  });
});

test('the past is read from the summary’s index', async () => {
  const { state } = await writeLog(makeTemporaryRoot());
  const plans = await explainQueries(state.database, (db) => readScriptHistory(db, 'hourly/a', 1));
  expect(plans.join('; ').match(/SEARCH runs USING COVERING INDEX runs_summary/g)).toHaveLength(2);
  expect(plans.join('; ')).not.toMatch(/SCAN runs|TEMP B-TREE/);
});
