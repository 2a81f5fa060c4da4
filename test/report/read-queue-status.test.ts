import { expect, test } from 'vitest';
import { addJobs } from '../../src/queue/add/add.ts';
import {
  selectActivityOfJob,
  selectChildren,
  selectRunsOfJob,
} from '../../src/report/model/jobs.ts';
import { readQueueStatus } from '../../src/report/model/status.ts';
import { isQueueQuiet } from '../../src/report/model/tier.ts';
import { createScreen } from '../../src/report/terminal/screen.ts';
import { renderQueue } from '../../src/report/terminal/status.ts';
import { openEmptyLog } from '../../src/store/empty.ts';

import { explainQueries } from '../support/query-plan.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const none = { ready: 0, delayed: 0, running: 0, paused: 0, failed: 0 };

test('where nothing has ever run the queue is quiet', async () => {
  const status = await readQueueStatus(openEmptyLog(), { handlers: [], nowMs: now });
  expect(status).toEqual({ counts: none, withoutHandler: [], workers: 0 });
  expect(isQueueQuiet(status)).toBe(true);
});

test('the jobs of scripts are none of the queue, whatever their state', async () => {
  const log = await writeLog(makeTemporaryRoot());
  for (const state of ['queued', 'running', 'retrying', 'failed', 'cancelled'] as const) {
    const ended = state === 'failed' || state === 'cancelled';
    const row = { name: `hourly/${state}`, tier: 'hourly', state, run_at: now, created_at: now };
    await log.db
      .insertInto('jobs')
      .values({ ...row, finished_at: ended ? now : null })
      .execute();
  }
  const status = await readQueueStatus(log.db, { handlers: [], nowMs: now });
  expect(status).toEqual({ counts: none, withoutHandler: [], workers: 0 });
});

test('names without a handler come with the most jobs first, and not without end', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const names = Array.from({ length: 14 }, (_, index) => `name-${index}`);
  const jobs = [...names, 'name-7', 'known', '\u001b[2Jevil', '\u001b[2Jevil', '\u001b[2Jevil'];
  await addJobs(
    log.db,
    jobs.filter((name) => !name.includes('\u001b')).map((name) => ({ name })),
    {
      at: now,
    },
  );
  // Who adds by SQL can choose any name.
  for (const name of jobs.filter((each) => each.includes('\u001b'))) {
    await log.db.insertInto('jobs').values({ name, run_at: now, created_at: now }).execute();
  }
  const status = await readQueueStatus(log.db, { handlers: ['known'], nowMs: now });
  expect(status.withoutHandler).toHaveLength(15);
  expect(status.counts).toEqual({ ...none, ready: 19 });
  const screen = createScreen({ env: {}, stdout: {}, stderr: {}, now: () => now });
  expect(renderQueue(status, screen)).toEqual([
    'queue',
    '  19 ready · no worker',
    '  evil: 3 jobs without a handler here',
    '  name-7: 2 jobs without a handler here',
    ...['0', '1', '10', '11', '12', '13', '2', '3'].map(
      (index) => `  name-${index}: 1 job without a handler here`,
    ),
    '  5 more names without a handler here',
  ]);
});

test('living workers of the queue are counted', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const values = { host: 'web3', pid: 1, started_at: now, runner_version: '0', node_version: '0' };
  for (const state of ['running', 'running', 'finished'] as const) {
    await log.db
      .insertInto('workers')
      .values({ ...values, kind: 'queue', state })
      .execute();
  }
  const status = await readQueueStatus(log.db, { handlers: [], nowMs: now });
  expect(status.workers).toBe(2);
  expect(isQueueQuiet(status)).toBe(false);
});

test('nothing is asked that reads all jobs, or all activity', async () => {
  const { state } = await writeLog(makeTemporaryRoot());
  const plans = await explainQueries(state.database, async (db) => {
    await readQueueStatus(db, { handlers: [], nowMs: now });
    await selectChildren(db, 1, 10);
    await selectRunsOfJob(db, 1, 10);
    await selectActivityOfJob(db, { id: 1, createdAt: new Date(now) }, 10);
  });
  expect(plans).toHaveLength(6);
  for (const plan of plans) expect(plan).not.toMatch(/SCAN (?:jobs|activity)(?! USING)/);
  expect(plans[0]).toContain('USING INDEX jobs_waiting_by_name');
  expect(plans.at(-1)).toContain('USING INDEX activity_by_time');
});
