import { expect, test } from 'vitest';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import type { ClaimedRow } from '../../../src/queue/claim/claim.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { queryRaw } from '../../../src/store/sqlite/queries.ts';
import { type HandlerLane, runHandler } from '../../../src/worker/loop/run-handler.ts';

import { makeLoggedCall } from '../../support/logged-call.ts';
import { makeTemporaryRoot } from '../../support/temporary-root.ts';

const job = { id: 1, name: 'a', data: '{}', scheduled_for: null, run_at: 5, repeat: null };
const claim = { id: 1, token: 't', runId: 7, startedAt: 5, attempt: 1 };
const claimed = {
  ...{ claim, job: { ...job, parent_id: null, crashes: 0 }, timeoutMs: null },
  hasEndedChildren: false,
} as unknown as ClaimedRow;

/** A lane whose runner has a defect, which no handler can be made to show. */
async function openBrokenLane(error: Error) {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': 'export default () => {};\n' });
  const handlers = await openHandlers(root, defaultSettings);
  const told = { abandoned: 0 };
  const lane = {
    call: await makeLoggedCall(root),
    journal: { update: async () => {} },
    findHandler: handlers.find,
    runner: {
      run: () => Promise.reject(error),
      abandon: () => {
        told.abandoned += 1;
      },
    },
  } as unknown as HandlerLane;
  return { lane, told };
}

test('a defect of the runner ends the one job it was met with', async () => {
  const { lane, told } = await openBrokenLane(new RangeError('Invalid string length'));
  const { end, isRetryable } = await runHandler(lane, claimed);
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
  const { lane } = await openBrokenLane(new Error('it was started'));
  await queryRaw(
    lane.call.store.db,
    `with recursive n (i) as (select 1 union all select i + 1 from n where i < 33)
     insert into jobs (name, state, parent_id, finished_at, result)
     select 'child', 'finished', 1, 1, '"' || hex(zeroblob(1048576)) || '"' from n`,
  );
  const { end, isRetryable } = await runHandler(lane, { ...claimed, hasEndedChildren: true });
  expect({ ...end, isRetryable }).toMatchObject({
    outcome: 'not-started',
    reason: expect.stringMatching(/^the data and results of its children are 66 MB in total/),
    isRetryable: false,
  });
});

test('a log that is lost is no such defect', async () => {
  const lost = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR' });
  const { lane } = await openBrokenLane(lost);
  await expect(runHandler(lane, claimed)).rejects.toBe(lost);
});
