import { expect, test } from 'vitest';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { HOUR, type Look, look, MINUTE, NOW, wrongOf } from '../../support/alerts.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

/** The full hour before. */
const UNTIL = NOW - (NOW % HOUR);

test('utilization and service time of the last full hour are compared with their targets, if there are any', async () => {
  const root = makeTemporaryRoot();
  const log = await writeLog(root);
  const { store } = log;
  const self = { ...identifyProcess(process.pid), scheduledFor: null, runnerVersion: '1', nodeVersion: '1' };
  const worker = { ...self, kind: 'queue', tier: null, trigger: 'cron', startedAt: UNTIL - HOUR } as const;
  const id = await store.workers.addEnded(worker, { state: 'finished', at: UNTIL, reason: null });
  await log.addRun('queue/mail', UNTIL - 50 * MINUTE, {
    ...{ worker_id: id, finished_at: UNTIL - 5 * MINUTE, duration_us: 1000 * (45 * MINUTE) },
  });
  const of = async (code: 'utilization' | 'service-time', checks: Look['checks'] = {}) =>
    wrongOf(await look({ root, store }, { checks }, code));
  expect(await of('utilization')).toEqual([]);
  expect(await of('service-time')).toEqual([]);
  expect(await of('utilization', { utilization: 0.8 })).toEqual([]);
  expect(await of('utilization', { utilization: 0.7 })).toEqual([
    {
      subject: 'queue',
      status: 'warning',
      message: 'in the last full hour the workers of the queue were busy for 75% of their time (the target is 70%)',
    },
  ]);
  expect(await of('service-time', { serviceTime: HOUR })).toEqual([]);
  expect(await of('service-time', { serviceTime: 30 * MINUTE })).toEqual([
    {
      subject: 'queue',
      status: 'warning',
      message: 'jobs that ended in the last full hour took 45m on average since they were added (the target is 30m)',
    },
  ]);
  const { findings } = await look({ root, store }, { checks: { utilization: 0.7 } }, 'utilization');
  expect(findings[0]?.hint).toContain('two options: run workers more frequently');
});
