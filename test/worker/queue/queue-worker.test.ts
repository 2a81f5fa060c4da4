import { expect, test } from 'vitest';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { finishWorker } from '../../../src/worker/invocation/invocation.ts';
import { startQueueWorker } from '../../../src/worker/start/work-queue.ts';

import { makeLoggedCall } from '../../support/logged-call.ts';
import { queryLog } from '../../support/open-log.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';
import { writeLog } from '../../support/written-log.ts';

const workers = 'select id, kind, tier, state, skip_code, reason from workers order by id';
const max = { workers: { ...defaultSettings.workers, max: 2 } };

test('there are as many workers of the queue as there may be, passes not counted', async () => {
  const root = makeTemporaryRoot();
  await (await writeLog(root)).addPass('hourly', 1, { state: 'running' });
  const call = await makeLoggedCall(root, max);
  expect(await startQueueWorker(call)).toEqual({ workerId: 2 });
  expect(await startQueueWorker(call)).toEqual({ workerId: 3 });
  const refusal = '2 queue workers are already running (workers.max is 2)';
  expect(await startQueueWorker(call)).toEqual({ refusal });
  expect(queryLog(root, workers).slice(1)).toEqual([
    { id: 2, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 3, kind: 'queue', tier: null, state: 'running', skip_code: null, reason: null },
    { id: 4, kind: 'queue', tier: null, state: 'skipped', skip_code: 'held', reason: refusal },
  ]);
  const told = 'select worker_id, event from activity order by worker_id';
  expect(queryLog(root, told)).toEqual([
    { worker_id: 1, event: 'worker-started' },
    { worker_id: 2, event: 'worker-started' },
    { worker_id: 3, event: 'worker-started' },
    { worker_id: 4, event: 'worker-skipped' },
  ]);
  await finishWorker(call, call.store, 2);
  expect(await startQueueWorker(call)).toEqual({ workerId: 5 });
});
