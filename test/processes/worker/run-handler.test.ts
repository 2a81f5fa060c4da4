import { expect, onTestFinished, test, vi } from 'vitest';
import { openHandlers } from '../../../src/discovery/handlers.ts';
import { endNotStarted } from '../../../src/execution/result/result.ts';
import type { BegunEnd, ShortRuns } from '../../../src/execution/warm/run.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createActiveExecutors, type Equipment } from '../../../src/worker/loop/executors.ts';
import { QueueExecutor } from '../../../src/worker/loop/queue-executor.ts';
import type { HandlerRun } from '../../../src/worker/loop/queue-recorder.ts';
import { createRunStop, type HandlerEquipment, runHandler } from '../../../src/worker/loop/run-handlers.ts';
import { changeLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';

const MB = 1024 * 1024;
const job = { id: 1, name: 'a', data: '{}', scheduled_for: null, run_at: 5, repeat: null };

/** An executor whose runner has a defect, which no handler can be made to show. */
async function openBroken(error: Error) {
  const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': 'export default () => {};\n' });
  const handlers = await openHandlers(root, defaultSettings);
  const told = { abandoned: 0 };
  const call = await makeLoggedCall(root);
  const executor = {
    ...{ call, heartbeat: { guard: () => {}, unguard: () => {} }, runStop: createRunStop(call.stop.signal) },
    recorder: { update: async () => {} },
    runner: {
      run: () => Promise.reject(error),
      abandon: () => {
        told.abandoned += 1;
      },
    },
  } as unknown as HandlerEquipment;
  const claimed = {
    ...{ key: '7.1', claim: { id: 1, token: '7.1' }, name: 'queue/a', script: handlers.find('a') },
    ...{ job: { ...job, parent_id: null, has_unreported_children: false } },
    ...{ attempt: 1, timeoutMs: 60_000 },
  } as unknown as HandlerRun;
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

test.each(['ENOENT', 'EMFILE', 'EACCES'])(
  '%s at any file ends the one job that meets it, not the worker',
  async (code) => {
    const { executor, claimed } = await openBroken(Object.assign(new Error(`${code}: open`), { code }));
    const { end, isRetryable } = await runHandler(executor, claimed);
    expect({ ...end, isRetryable }).toMatchObject({
      ...{ outcome: 'failed', reason: `the runner failed to run it: ${code}: open`, isRetryable: true },
    });
  },
);

test('an error of the log ends no job: without the log none can be recorded', async () => {
  const failure = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_READ' });
  const { executor, claimed } = await openBroken(failure);
  await expect(runHandler(executor, claimed)).rejects.toBe(failure);
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

/** An executor with two jobs, and what it gives back of them. */
async function openWithTwo(runner: Partial<HandlerEquipment['runner']>) {
  const { executor, claimed, told } = await openBroken(new Error('not called'));
  const other = { ...claimed, key: '7.2', claim: { id: 2, token: '7.2' } };
  const given: unknown[] = [];
  const recorded: string[] = [];
  const equipment = {
    ...executor,
    recorder: {
      turn: async () => ({ settled: [], next: [claimed, other] }),
      release: async (runs: readonly HandlerRun[]) => void given.push(...runs.map(({ key }) => key)),
      recordProgress: async () => void recorded.push('memory'),
    },
    runner: { ...executor.runner, ...runner },
    heartbeat: { ...executor.heartbeat, note: () => {} },
    active: createActiveExecutors(() => {}),
    ahead: { window: () => 1, note: () => {} },
    watch: { found: () => {}, look: () => 1 },
    wake: { ring: () => {}, next: () => null },
    work: { reserve: () => 2, settle: (reserved: number) => reserved > 0 && given.push(reserved) },
    admit: async () => true,
  } as unknown as Equipment;
  return { executor: new QueueExecutor(equipment), claimed, other, given, recorded, told };
}

test('what was to be run with a job that lasts is given back once, however long that lasts', async () => {
  const over = Promise.withResolvers<readonly BegunEnd[]>();
  let asked: ShortRuns | null = null;
  const { executor, claimed, other, given, recorded } = await openWithTwo({
    run: (runs) => {
      asked = runs;
      return over.promise;
    },
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const running = executor.run([claimed, other]);
  const { requests, onLasting } = await vi.waitUntil(() => asked);
  requests[0].onStarted?.(process.pid);
  onLasting?.(1);
  await vi.advanceTimersByTimeAsync(100);
  expect([recorded.length, given]).toEqual([1, [other.key, 1]]);
  requests[0].onSample?.(MB);
  await vi.advanceTimersByTimeAsync(10_000);
  expect([recorded.length, given]).toEqual([2, [other.key, 1]]);
  over.resolve([{ end: endNotStarted({ failure: 'enough' }, 0), afterMs: 0 }]);
  await running;
});

test('an executor that breaks off gives back what waits behind its turn, and leaves its child alone', async () => {
  const { executor, claimed, other, given, told } = await openWithTwo({});
  expect(await executor.next()).toEqual([claimed]);
  expect(given).toEqual([]);
  await executor.giveBack();
  expect([given, told.abandoned]).toEqual([[other.key, 1], 1]);
});
