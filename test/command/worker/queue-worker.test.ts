import { expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { finishWorker } from '../../../src/worker/invocation/invocation.ts';
import { startQueueWorker } from '../../../src/worker/pass/work-queue.ts';
import { runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { writeLog } from '../../support/written-log.ts';

const workers = 'select id, kind, tier, state, skip_code, reason from workers order by id';
const max = { workers: { ...defaultSettings.workers, max: 2 } };

test('there are as many workers of the queue as there may be, passes not counted', async () => {
  const root = makeTemporaryRoot();
  await (await writeLog(root)).addPass('hourly', 1, { state: 'running' });
  const call = await makeLoggedCall(root, max);
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 2 });
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 3 });
  const refusal = '2 queue workers are already running (workers.max is 2)';
  expect(await startQueueWorker(call)).toEqual({ refusal });
  expect(queryLog(root, workers).slice(1)).toEqual([
    { id: 2, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 3, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 4, kind: 'queue', tier: null, state: 'skipped', skip_code: 'held', reason: refusal.replace('are', 'were') },
  ]);
  const told = 'select worker_id, event from activity order by worker_id';
  expect(queryLog(root, told)).toEqual([
    { worker_id: 1, event: 'worker-started' },
    { worker_id: 2, event: 'worker-started' },
    { worker_id: 3, event: 'worker-started' },
    { worker_id: 4, event: 'worker-skipped' },
  ]);
  await finishWorker(call, call.store, 2);
  expect(await startQueueWorker(call)).toMatchObject({ workerId: 5 });
});

test('what is claimed ahead does not grow with each job that prints', async () => {
  const root = makeTemporaryRoot({
    'jobs/queue/say.mjs': `import { DatabaseSync } from 'node:sqlite';
      const database = new DatabaseSync(process.env.RUNNER_ROOT + '/.runner/activity.db', { readOnly: true });
      const claimed = database.prepare("select count(*) as jobs from jobs where state = 'claimed'");
      export default ({ data }) => {
        if (data.prints) console.log('hello');
        return claimed.get().jobs;
      };`,
  });
  const queue = await openQueue({ root });
  // Silent ones first, so that it claims several at once.
  const jobs = Array.from({ length: 300 }, (_, index) => ({ name: 'say', data: { prints: index >= 100 } }));
  await queue.addMany(jobs);
  await queue.close();
  const { status } = runCommand(['work', '--wait', '0'], { cwd: root, env: { HOME: root, PATH: process.env.PATH } });
  expect(status).toBe(0);
  const claimed = queryLog(root, 'select cast(result as integer) as jobs from jobs order by id') as { jobs: number }[];
  expect(claimed.length).toBe(300);
  const most = Math.max(...claimed.map((each) => each.jobs));
  expect(most).toBeGreaterThan(8);
  // Some have run and are not settled, some run, some come next.
  expect(most).toBeLessThanOrEqual(96);
});
