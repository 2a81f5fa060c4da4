import { expect, test } from 'vitest';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { type HandlerEquipment, runHandler } from '../../../src/worker/loop/run-job.ts';
import type { HeldJob } from '../../../src/worker/record/queue-recorder.ts';

import { makeLoggedCall } from '../../support/logged-call.ts';
import { changeLog } from '../../support/open-log.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';

const job = { id: 1, name: 'a', data: '{}', scheduled_for: null, run_at: 5, repeat: null };

/** An executor whose runner has a defect, which no handler can be made to show. */
async function openBroken(error: Error) {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': 'export default () => {};\n' });
  const handlers = await openHandlers(root, defaultSettings);
  const told = { abandoned: 0 };
  const executor = {
    call: await makeLoggedCall(root),
    recorder: { update: async () => {} },
    runner: {
      runSome: () => Promise.reject(error),
      abandon: () => {
        told.abandoned += 1;
      },
    },
  } as unknown as HandlerEquipment;
  const claimed = {
    ...{ claim: { id: 1, token: '7.1' }, script: 'queue/a', handler: handlers.find('a') },
    ...{ job: { ...job, parent_id: null, has_unreported_children: false } },
    ...{ attempt: 1, timeoutMs: 60_000 },
  } as unknown as HeldJob;
  return { root, executor, claimed, told };
}

test('a defect of the runner ends the one job it was met with', async () => {
  const { executor, claimed, told } = await openBroken(new RangeError('Invalid string length'));
  const { end, isRetryable } = await runHandler(executor, claimed);
  expect({ ...end, isRetryable }).toMatchObject({
    outcome: 'failed',
    reason: 'the runner failed to run it: Invalid string length',
    durationMs: null,
    isRetryable: true,
  });
  // Its child may be at anything by now.
  expect(told.abandoned).toBe(1);
});

test('a parent whose children have left more than it can be told is not started', async () => {
  const { root, executor, claimed } = await openBroken(new Error('it was started'));
  changeLog(
    root,
    `with recursive n (i) as (select 1 union all select i + 1 from n where i < 33)
     insert into jobs (name, state, ready, parent_id, finished_at, result)
     select 'child', 'finished', null, 1, 1, '"' || hex(zeroblob(1048576)) || '"' from n`,
  );
  const { end, isRetryable } = await runHandler(executor, {
    ...claimed,
    job: { ...claimed.job, has_unreported_children: true },
  });
  expect({ ...end, isRetryable }).toMatchObject({
    outcome: 'not-started',
    reason: expect.stringMatching(/^the data and results of its children are 66 MB in total/),
    isRetryable: false,
  });
});

test('a log that is lost is no such defect', async () => {
  const lost = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR' });
  const { executor, claimed } = await openBroken(lost);
  await expect(runHandler(executor, claimed)).rejects.toBe(lost);
});
