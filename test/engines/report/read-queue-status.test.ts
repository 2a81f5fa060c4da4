import { expect, test } from 'vitest';
import { addJobs } from '../../../src/queue/add/add.ts';
import { selectActivity } from '../../../src/report/model/activity.ts';
import { selectChildren, selectRunsOfJob } from '../../../src/report/model/jobs.ts';
import { isQueueQuiet, readQueueStatus } from '../../../src/report/model/status.ts';
import { createScreen } from '../../../src/report/terminal/screen.ts';
import { renderQueue } from '../../../src/report/terminal/status.ts';
import { emptyQueries } from '../../../src/store/shared/queries.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries } from '../../support/store.ts';
import { writeLog } from '../../support/written-log.ts';

const now = Date.parse('2026-11-03T14:05:00Z');
const none = { ready: 0, delayed: 0, running: 0, paused: 0, failed: 0 };

test('where nothing has ever run the queue is quiet', async () => {
  const status = await readQueueStatus(emptyQueries(), { handlers: [], nowMs: now, waiting: [] });
  expect(status).toEqual({ counts: none, withoutHandler: [], workers: 0, idleWorkers: 0, waiting: [] });
  expect(isQueueQuiet(status)).toBe(true);
});

test('the jobs of scripts are none of the queue, whatever their state', async () => {
  const log = await writeLog(makeTemporaryRoot());
  for (const state of ['queued', 'running', 'retrying', 'failed', 'cancelled'] as const) {
    const ended = state === 'failed' || state === 'cancelled';
    log.change(
      `insert into jobs (name, tier, state, ready, run_at, created_at, finished_at)
         values (?, 'hourly', ?, null, ?, ?, ?)`,
      `hourly/${state}`,
      state,
      now,
      now,
      ended ? now : null,
    );
  }
  const status = await readQueueStatus(log.db, { handlers: [], nowMs: now, waiting: [] });
  expect(status).toEqual({ counts: none, withoutHandler: [], workers: 0, idleWorkers: 0, waiting: [] });
});

test('names without a handler come with the most jobs first, and not without end', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const names = Array.from({ length: 14 }, (_, index) => `name-${index}`);
  const jobs = [...names, 'name-7', 'known', '\u001b[2Jevil', '\u001b[2Jevil', '\u001b[2Jevil'];
  const plain = jobs.filter((name) => !name.includes('\u001b')).map((name) => ({ name }));
  await log.store.transaction((session) => addJobs(session, plain, now));
  // Who adds by SQL can choose any name.
  for (const name of jobs.filter((each) => each.includes('\u001b'))) {
    log.change('insert into jobs (name, run_at) values (?, ?)', name, now);
  }
  const status = await readQueueStatus(log.db, { handlers: ['known'], nowMs: now, waiting: [] });
  expect(status.withoutHandler).toHaveLength(15);
  expect(status.counts).toEqual({ ...none, ready: 19 });
  const screen = createScreen({ env: {}, stdout: {}, stderr: {}, now: () => now });
  expect(renderQueue({ ...status, pace: null }, screen)).toEqual([
    'queue',
    '  19 ready · no worker',
    '  evil: 3 jobs without a handler here',
    '  name-7: 2 jobs without a handler here',
    ...['0', '1', '10', '11', '12', '13', '2', '3'].map((index) => `  name-${index}: 1 job without a handler here`),
    '  5 more names without a handler here',
  ]);
});

test('jobs with parameters wait for one handler', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const jobs = Array.from({ length: 1_000 }, (_, index) => ({ name: `mail/welcom?user=${index}` }));
  await log.store.transaction((session) => addJobs(session, [...jobs, { name: 'mail/welcome?user=1' }], now));
  const { withoutHandler } = await readQueueStatus(log.db, { handlers: ['mail/welcome'], nowMs: now, waiting: [] });
  expect(withoutHandler).toEqual([{ name: 'mail/welcom', jobs: 1_000, nearest: 'mail/welcome' }]);
});

test('living workers of the queue are counted', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const { store } = log;
  const worker = {
    ...{ kind: 'queue' as const, tier: null, trigger: 'cron' as const, scheduledFor: null },
    ...{ startedAt: now, runnerVersion: '0', nodeVersion: '0' },
  };
  const elsewhere = { ...worker, host: 'web9', bootId: null, pid: 1, startTicks: null };
  await store.workers.start(elsewhere);
  await store.workers.start({ ...worker, ...identifyProcess(process.pid) });
  await store.workers.start({ ...worker, ...identifyDeadProcess() });
  const ended = await store.workers.start(elsewhere);
  await store.workers.end(ended, { state: 'finished', at: now, reason: null });
  const status = await readQueueStatus(log.db, { handlers: [], nowMs: now, waiting: [] });
  expect(status.workers).toBe(2);
  expect(isQueueQuiet(status)).toBe(false);
});

test('nothing is asked that reads all jobs, runs or workers', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const explained = await explainQueries(root, async (store) => {
    const view = { db: await store.queries(), state: log.state };
    await readQueueStatus(view.db, { handlers: [], nowMs: now, waiting: [] });
    await selectChildren(view, 1, 10);
    await selectRunsOfJob(view, 1, 10);
    await selectActivity(view, { jobId: 1, order: 'newest', limit: 10 });
  });
  const plans = explained.filter((plan) => plan !== 'SCAN CONSTANT ROW');
  expect(plans).toHaveLength(12);
  // Where the view has no job at all, SQLite asks nothing of the workers.
  for (const plan of plans) expect(plan).not.toMatch(/SCAN (?:jobs|runs|events)(?! USING)/);
  expect(plans.join('\n')).toContain('jobs_ready_by_name');
  expect(plans.at(-1)).toContain('USING INDEX events_of_jobs');
});
