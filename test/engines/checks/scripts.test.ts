import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { addSettledRun, DAY, HOUR, type Look, look, MINUTE, NOW, wrongOf } from '../../support/alerts.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { NO_SUCH_PID, running, writeLog } from '../../support/written-log.ts';

const files = { 'jobs/hourly/import.sh': 'true\n', 'jobs/hourly/clean.sh': 'true\n' };

async function open() {
  const root = makeTemporaryRoot(files);
  return { root, ...(await writeLog(root)) };
}

test('a script has failed in a row, and one whose file is gone is not told of', async () => {
  const log = await open();
  const failed = { outcome: 'failed', reason: 'exit code 1' } as const;
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'script-failing'));
  await addSettledRun(log, 'hourly/import', NOW - 9 * HOUR, failed);
  await addSettledRun(log, 'hourly/import', NOW - 8 * HOUR);
  await addSettledRun(log, 'hourly/clean', NOW - HOUR);
  expect(await of()).toEqual([]);
  await addSettledRun(log, 'hourly/gone', NOW - 3 * HOUR, failed);
  await addSettledRun(log, 'hourly/import', NOW - 3 * HOUR, {
    outcome: 'crashed',
    reason: 'died',
    left_job: 'retrying',
  });
  await addSettledRun(log, 'hourly/import', NOW - 2 * HOUR, failed);
  expect(await of()).toEqual([
    { subject: 'hourly/import', status: 'critical', message: 'hourly/import failed 2h ago: exit code 1' },
  ]);
  await addSettledRun(log, 'hourly/import', NOW - HOUR, { outcome: 'timed-out', reason: 'no end\u001b[2J' });
  expect(await of()).toEqual([
    {
      subject: 'hourly/import',
      status: 'critical',
      message: 'hourly/import failed 2 times in a row, since 2h ago: no end\\u001b[2J',
    },
  ]);
  expect(await of({ checks: { scriptFailing: 2 } })).toHaveLength(1);
  expect(await of({ checks: { scriptFailing: 3 } })).toEqual([]);
  await addSettledRun(log, 'hourly/import', NOW);
  expect(await of()).toEqual([]);
});

test('a run that goes on is told of once it is far over its usual time, unless its worker has died', async () => {
  const log = await open();
  for (let index = 1; index <= 8; index += 1) {
    await log.addRun('hourly/import', NOW - index * HOUR, { duration_us: 1000 * (10 * MINUTE + index * 1000) });
  }
  const dead = await log.addPass('hourly', NOW - 2 * HOUR, { state: 'running', pid: NO_SUCH_PID });
  await log.addRun('hourly/import', NOW - 2 * HOUR, { ...running, worker_id: dead });
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'run-unusual'));
  expect(await of()).toEqual([]);
  const { startTicks } = identifyProcess(process.pid);
  log.change('update workers set pid = ?, pid_start_ticks = ? where id = ?', process.pid, startTicks, dead);
  expect(await of()).toEqual([
    {
      subject: 'hourly/import',
      status: 'warning',
      message: 'hourly/import has been running for 2h, 11× its usual 10m 6s',
    },
  ]);
  expect(await of({ checks: { runUnusual: 20 } })).toEqual([]);
  expect(await of({ at: NOW - 2 * HOUR + 15 * MINUTE })).toEqual([]);
});

test('a worker does not end a run that is over its time limit', async () => {
  const log = await open();
  const pass = await log.addPass('hourly', NOW - HOUR, { state: 'running', pid: process.pid });
  await log.addRun('hourly/import', NOW - HOUR, { ...running, worker_id: pass, timeout_ms: 58.5 * MINUTE });
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'worker-stuck'));
  expect(await of()).toEqual([]);
  expect(await of({ at: NOW + MINUTE })).toEqual([
    {
      subject: 'hourly/import',
      status: 'critical',
      message: `hourly/import is 2m 30s over its time limit, and its worker (pid ${process.pid}) does not end it`,
    },
  ]);
});

test('one job keeps its worker busy while others wait too long', async () => {
  const log = await open();
  const self = { ...identifyProcess(process.pid), scheduledFor: null, runnerVersion: '1', nodeVersion: '1' };
  const worker = { ...self, kind: 'queue', tier: null, trigger: 'cron', startedAt: NOW - 2 * HOUR } as const;
  const id = await log.store.workers.start(worker);
  await log.addRun('queue/video', NOW - 2 * HOUR, { ...running, worker_id: id });
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'worker-stuck'));
  expect(await of()).toEqual([]);
  const add = (runAt: number) => log.change('insert into jobs (name, run_at) values (?, ?)', 'mail', runAt);
  add(NOW - 10 * MINUTE);
  expect(await of()).toEqual([]);
  add(NOW - 40 * MINUTE);
  expect(await of()).toEqual([
    {
      subject: 'queue/video',
      status: 'warning',
      message: 'queue/video has kept its worker busy for 2h, while 2 jobs wait for up to 40m',
    },
  ]);
  expect(await of({ checks: { workerStuck: 3 * HOUR } })).toEqual([]);
});

test('passes that have died are counted by tier within a day', async () => {
  const log = await open();
  mkdirSync(join(log.root, 'jobs/daily'));
  const crashed = { state: 'crashed', reason: 'its process has gone' } as const;
  await log.addPass('hourly', NOW - 25 * HOUR, crashed);
  for (const hours of [20, 10]) await log.addPass('hourly', NOW - hours * HOUR, crashed);
  await log.addPass('daily', NOW - HOUR, crashed);
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'crashes'));
  expect(await of()).toEqual([]);
  await log.addPass('hourly', NOW - 5 * HOUR, crashed);
  expect(await of()).toEqual([
    {
      subject: 'hourly',
      status: 'warning',
      message: 'hourly: 3 passes died within the last day, the last one 4h 59m ago: its process has gone',
    },
  ]);
  expect(await of({ at: NOW + DAY })).toEqual([]);
  expect(await of({ checks: { crashes: 1 } })).toMatchObject([
    { subject: 'daily', status: 'warning' },
    { subject: 'hourly', status: 'critical' },
  ]);
});
