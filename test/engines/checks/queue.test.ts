import { expect, test } from 'vitest';
import { announceWait } from '../../../src/queue/claim/waiters.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { HOUR, type Look, look, MINUTE, NOW, wrongOf } from '../../support/alerts.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

async function open() {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const log = await writeLog(root);
  const times = (count: number, row: string): string => Array(count).fill(row).join(', ');
  return {
    root,
    ...log,
    addJobs: (name: string, count: number, runAt: number) =>
      log.change(`insert into jobs (name, run_at) values ${times(count, `('${name}', ${runAt})`)}`),
    endJobs: (state: string, count: number, at: number) =>
      log.change(
        `insert into jobs (name, state, ready, run_at, finished_at)
         values ${times(count, `('mail', '${state}', null, ${at}, ${at})`)}`,
      ),
  };
}

test('too many jobs fail within an hour; where most do, that is critical', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'jobs-failing'));
  log.endJobs('failed', 20, NOW - HOUR - 1);
  log.endJobs('failed', 9, NOW - HOUR);
  log.endJobs('finished', 30, NOW - MINUTE);
  expect(await of()).toEqual([]);
  log.endJobs('failed', 1, NOW - MINUTE);
  expect(await of()).toEqual([{ subject: 'queue', status: 'warning', message: '10 jobs failed within the last hour' }]);
  expect(await of({ checks: { jobsFailing: 11 } })).toEqual([]);
  log.endJobs('failed', 20, NOW - MINUTE);
  expect(await of()).toEqual([
    { subject: 'queue', status: 'critical', message: '30 jobs failed within the last hour, and only 30 finished' },
  ]);
});

test('too many jobs are due; what is paused or still to come does not count', async () => {
  const log = await open();
  const checks = { jobsWaiting: 5 };
  const of = async (options: Look = { checks }) => wrongOf(await look(log, options, 'jobs-waiting'));
  log.addJobs('mail', 4, NOW - MINUTE);
  log.addJobs('mail', 9, NOW + MINUTE);
  log.addJobs('news/weekly', 9, NOW - MINUTE);
  await log.store.pauses.set({ name: 'queue/news/*', kind: 'pause', until: null, createdAt: NOW - HOUR, by: null });
  expect(await of()).toEqual([]);
  log.addJobs('sms', 1, NOW);
  expect(await of()).toEqual([
    { subject: 'queue', status: 'warning', message: '5 jobs are due, most of them mail (4)' },
  ]);
  expect(await of({})).toEqual([]);
  log.addJobs('mail', 45, NOW - MINUTE);
  expect(await of()).toMatchObject([{ status: 'critical' }]);
  const { figures } = await look(log, { checks }, 'jobs-waiting');
  expect(figures).toEqual([{ label: 'jobs_due', value: 50, unit: '', warning: 5, critical: 50 }]);
});

test('a job waits too long: longer than two periods of the most frequent tier that is called', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'jobs-late'));
  log.addJobs('mail', 2, NOW - 31 * MINUTE);
  const message = 'the oldest job that is due has waited for 31m (mail)';
  expect(await of()).toEqual([{ subject: 'queue', status: 'warning', message }]);
  await log.addPass('hourly', NOW);
  expect(await of()).toEqual([]);
  expect(await of({ at: NOW + 90 * MINUTE })).toMatchObject([{ status: 'warning' }]);
  expect(await of({ checks: { jobsLate: 5 * MINUTE } })).toMatchObject([{ status: 'critical' }]);
});

test('jobs wait and nobody processes the queue', async () => {
  const log = await open();
  const of = async (options: Look = {}) => wrongOf(await look(log, options, 'no-worker'));
  log.addJobs('mail', 2, NOW - 40 * MINUTE);
  const message = '2 jobs wait for up to 40m to be processed;';
  expect(await of()).toEqual([{ subject: 'queue', status: 'critical', message: `${message} nobody ever has` }]);
  expect(await of({ checks: { noWorker: HOUR } })).toEqual([]);
  const self = { ...identifyProcess(process.pid), scheduledFor: null, runnerVersion: '1', nodeVersion: '1' };
  const worker = { ...self, kind: 'queue', tier: null, trigger: 'cron' } as const;
  const end = { state: 'finished', reason: null } as const;
  await log.store.workers.addEnded({ ...worker, startedAt: NOW - 2 * HOUR }, { ...end, at: NOW - HOUR });
  expect(await of()).toMatchObject([{ message: `${message} nobody has for 2h` }]);
  const stop = announceWait(log.state, { patterns: ['*'], sinceMs: NOW - MINUTE, untilMs: NOW + HOUR });
  expect(await of()).toEqual([]);
  stop();
  expect(await of()).toHaveLength(1);
  log.change(`update jobs set claim_token = 'outside', state = 'running', ready = null where id = 1`);
  expect(await of()).toEqual([]);
  log.change(`update jobs set claim_token = null, state = 'queued', ready = 0 where id = 1`);
  await log.store.workers.start({ ...worker, startedAt: NOW - 2 * HOUR });
  expect(await of()).toEqual([]);
});
