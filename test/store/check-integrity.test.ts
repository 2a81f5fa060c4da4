import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { checkIntegrity } from '../../src/store/check-integrity.ts';
import { openStore } from '../../src/store/open-store.ts';
import { makeDamagedLog } from '../support/damaged-log.ts';
import { makeStateOf, openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

test('a sound log has no problems', async () => {
  const root = makeTemporaryRoot();
  const { addRun } = await writeLog(root);
  await addRun('hourly/a', 0);
  expect(await checkIntegrity(await openStoreOf(root))).toEqual([]);
});

test('rows that lost what they belong to are told', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/a', 0);
  await addRun('hourly/a', 1);
  await sql`pragma foreign_keys = off`.execute(db);
  await db.deleteFrom('jobs').execute();
  expect(await checkIntegrity({ db })).toEqual([
    '2 rows of runs name a row of jobs that is not there',
  ]);
});

test('damage inside the file is told', async () => {
  const folder = makeStateOf(makeTemporaryRoot());
  await makeDamagedLog(folder);
  const store = await openStore(folder);
  onTestFinished(() => store.close());
  expect(store.setAside).toBeNull();
  expect(await checkIntegrity(store)).not.toEqual([]);
});
