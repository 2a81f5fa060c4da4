import { expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import { endUnmeasured, noOutput, type RunEnd } from '../../../src/execution/result/result.ts';
import { createSelector, type HandlerRun, idleTurn, QueueRecorder } from '../../../src/worker/loop/queue-recorder.ts';
import { startQueueWorker } from '../../../src/worker/pass/work-queue.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { openTestQueue } from '../../support/queue.ts';
import { makeLoggedCall, makeScript } from '../../support/run.ts';

const handlers: Handlers = {
  problem: null,
  names: () => ['a', 'b'],
  find: (name) => makeScript(`queue/${name}`),
  optionsOf: () => ({}),
};

/** The recorder of a worker that has claimed these jobs. */
async function open(names: readonly string[] = ['a', 'a', 'b']) {
  const log = await openTestQueue();
  const call = await makeLoggedCall(log.root);
  const started = await startQueueWorker(call);
  if ('refusal' in started) throw new Error(started.refusal);
  log.clock.at = Date.now() - 1_000;
  await log.queue.addMany(names.map((name) => ({ name })));
  const { store, runner } = call;
  const watch = store.watch();
  const request = { patterns: [], failsUnknown: false };
  const version = () => watch.look();
  const recorder = new QueueRecorder({
    ...{ store, runner, handlers, workerId: started.workerId },
    selector: createSelector({ handlers, request, groupLimit: null, version }),
  });
  const { next } = await recorder.turn([], names.length);
  expect(next.map(({ job }) => job.name)).toEqual(names);
  const states = () => names.map((_, index) => log.row(index + 1)?.state);
  return { ...log, recorder, next, states };
}

function ended(run: HandlerRun | undefined, end: Partial<RunEnd> = {}) {
  if (run === undefined) throw new Error('There is none.');
  const finishedAt = Date.now();
  const succeeded = { outcome: 'succeeded', finishedAt, durationMs: 1, reason: null } as const;
  const whole = { ...endUnmeasured({ ...succeeded, output: noOutput }), ...end };
  return { run, startedAt: finishedAt - 1, end: whole, isRetryable: true };
}

const seen = { pid: 4711, startTicks: 12, maxRssBytes: null };

test('several ends and the claims that follow are one commit', async () => {
  const { recorder, next, queue, states, row, root } = await open();
  const id = await queue.add('b');
  const { settled, next: following } = await recorder.turn(
    next.map((run) => ended(run)),
    2,
  );
  expect(settled.map(({ decision }) => decision?.state)).toEqual(Array(3).fill('finished'));
  expect(following).toMatchObject([{ job: { id }, attempt: 1, name: 'queue/b' }]);
  expect([...states(), row(id).state]).toEqual(['finished', 'finished', 'finished', 'claimed']);
  expect(await recorder.turn([], 1)).toBe(idleTurn);
  checkInvariants(root, { isSettled: false });
});

test('an end that the log refuses has failed, and says why; those beside it are as they were', async () => {
  const { recorder, next, states, row, runs, root } = await open();
  const output = { ...noOutput, text: 'so far\n', bytes: 7 };
  const ask = { kind: 'retry', delayMs: 9e15 } as const;
  const { settled } = await recorder.turn(
    [ended(next[0]), ended(next[1], { outcome: 'released', ask, output }), ended(next[2])],
    1,
  );
  expect(settled.map(({ decision }) => decision?.state)).toEqual(['finished', 'failed', 'finished']);
  expect(states()).toEqual(['finished', 'failed', 'finished']);
  const reason = expect.stringMatching(/^its end could not be recorded: CHECK constraint failed/);
  expect(row(2).reason).toEqual(reason);
  expect(runs(2)).toMatchObject([{ outcome: 'failed', reason, output: 'so far\n' }]);
  expect(settled.map(({ refusal = null }) => refusal)).toEqual([null, reason, null]);
  checkInvariants(root, { isSettled: false });
});

test('a defect of the runner at the end of a run is thrown, and calls no job failed', async () => {
  const { recorder, next, states } = await open();
  // No driver takes an object for a text.
  const output = { ...noOutput, text: {} as string, bytes: 1 };
  await expect(recorder.turn([ended(next[0]), ended(next[1], { output })], 1)).rejects.toThrow();
  expect(states()).toEqual(['claimed', 'claimed', 'claimed']);
});

test('what others have taken, or paused, is not begun any more', async () => {
  const { recorder, next, queue, states, row } = await open();
  expect(await recorder.keepHeld(next)).toEqual(next);
  await queue.pause('b');
  // Nobody begins it within half a second.
  await queue.bury(1);
  expect(await recorder.keepHeld(next)).toEqual([next[1]]);
  expect(states()).toEqual(['failed', 'claimed', 'queued']);
  await recorder.release(next);
  expect(states()).toEqual(['failed', 'queued', 'queued']);
  expect(row(2).attempts).toBe(0);
});

test('a run that lasts has a row, which its end completes; one whose claim is lost gets none', async () => {
  const { recorder, next, queue, runs, states } = await open();
  const [first, second] = next as [HandlerRun, HandlerRun];
  await recorder.recordProgress(first, 5, seen);
  await recorder.recordProgress(first, 5, { ...seen, pid: 4712, maxRssBytes: 7 });
  const row = { id: 1, key: first.claim.token, started_at: 5, attempt: 1 };
  expect(runs(1)).toMatchObject([{ ...row, pid: 4712, max_rss_bytes: 7, outcome: 'running' }]);
  await queue.requeue([2]);
  const [lost] = runs(2);
  await recorder.recordProgress(second, 5, seen);
  await recorder.turn([ended(first), ended(second)], 0);
  expect(runs(1)).toMatchObject([{ ...row, outcome: 'succeeded' }]);
  expect(runs(2)).toEqual([lost]);
  expect(states()).toEqual(['finished', 'queued', 'claimed']);
});

test('progress of a job is its data from then on, as long as the claim holds', async () => {
  const { recorder, next, queue, row } = await open();
  const claim = next[0]?.claim ?? { id: 0, token: '' };
  await recorder.update(claim, '{"done":1}');
  expect(row(1).data).toBe('{"done":1}');
  await queue.requeue([1]);
  await expect(recorder.update(claim, '2')).rejects.toMatchObject({ code: 'stale-claim' });
  expect(row(1).data).toBe('{"done":1}');
});
