import { expect, test } from 'vitest';
import { withStore } from '../../../src/worker/invocation/with-store.ts';
import { DAY, HOUR, MINUTE, NOW } from '../../support/alerts.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { pretendLongUptime } from '../../support/uptime.ts';
import { writeLog } from '../../support/written-log.ts';

const incidents = (root: string) =>
  queryLog(root, 'select code, subject, severity, occurrences, recovered_at is not null as "over" from incidents');

pretendLongUptime();

/** What each invocation does, at this time of the clock. */
async function invoke(root: string, at: number): Promise<void> {
  const { store, ...call } = await makeLoggedCall(root);
  await store.close();
  await withStore(
    { ...call, runner: { ...call.runner, now: () => at } },
    async () => {},
    async (reason) => {
      throw new Error(reason);
    },
  );
}

test('the passes of 15min note that daily is not called any more, and that it is again', async () => {
  const root = makeTemporaryRoot({ 'jobs/15min/a.sh': 'true\n', 'jobs/daily/a.sh': 'true\n' });
  const log = await writeLog(root);
  const called = Date.now() - (Date.now() % DAY) + 30 * DAY + 3 * HOUR;
  await log.addPass('daily', called);
  const pass = async (at: number) => {
    await log.addPass('15min', at);
    await invoke(root, at);
  };
  await pass(called + 20 * HOUR);
  expect(incidents(root)).toEqual([]);
  const overdue = { code: 'tier-overdue', subject: 'daily', severity: 'warning', occurrences: 1, over: 0 };
  await pass(called + 26 * HOUR);
  expect(incidents(root)).toEqual([overdue]);
  // Not before the next checks are due.
  await pass(called + 26 * HOUR + 4 * MINUTE);
  expect(incidents(root)).toEqual([overdue]);
  await pass(called + 26 * HOUR + 15 * MINUTE);
  expect(incidents(root)).toEqual([{ ...overdue, occurrences: 2 }]);
  await log.addPass('daily', called + 27 * HOUR);
  await pass(called + 27 * HOUR);
  expect(incidents(root)).toEqual([{ ...overdue, occurrences: 2, over: 1 }]);
});

test('while a run goes on, checks are due every minute', async () => {
  const root = makeTemporaryRoot({ 'jobs/1min/a.sh': 'true\n' });
  const log = await writeLog(root);
  const { chores } = log.store;
  const at = Date.now();
  await chores.setDone('checks', at);
  const isDue = async (afterMs: number) => (await chores.due(at + afterMs, 5 * MINUTE, 50_000)).checks;
  expect(await isDue(MINUTE)).toBe(false);
  expect(await isDue(5 * MINUTE)).toBe(true);
  const pass = await log.addPass('1min', at, { state: 'running', pid: process.pid });
  await log.addRun('1min/a', at, { outcome: 'running', worker_id: pass });
  expect(await isDue(40_000)).toBe(false);
  expect(await isDue(MINUTE)).toBe(true);
  // The clock was set back.
  expect(await isDue(-HOUR)).toBe(true);
});

test('nothing is noted of a tier that is new or empty, or of a script that failed; of a held tier it is', async () => {
  const root = makeTemporaryRoot({
    ...{ 'jobs/15min/a.sh': 'true\n', 'jobs/daily/b.sh': 'true\n', 'jobs/weekly/README.md': '', 'jobs/now/c.sh': '' },
  });
  const { addPass, addRun } = await writeLog(root);
  await addRun('daily/b', NOW - 23 * HOUR, { worker_id: await addPass('daily', NOW - 23 * HOUR) });
  await addRun('15min/a', NOW - MINUTE, { worker_id: await addPass('15min', NOW - MINUTE), outcome: 'failed' });
  await invoke(root, NOW);
  expect(incidents(root)).toEqual([]);
  for (const minutes of [3, 2, 1]) await addPass('15min', NOW + HOUR - minutes * 15 * MINUTE, { state: 'skipped' });
  await invoke(root, NOW + HOUR);
  expect(incidents(root)).toMatchObject([{ code: 'tier-skipped', subject: '15min', over: 0 }]);
});
