import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../../src/queue/api.ts';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, MINUTE_MS, openTestQueue, type TestQueue } from '../../support/queue.ts';
import { expectRefused } from './cases.ts';

/** A try that has failed; those that are left are for the queue to give. */
function endTry({ queue }: TestQueue, job: ClaimedJob) {
  return queue.fail(job, { mayRetry: true, reason: 'it failed' });
}

/** LaterJob's states, and how a job comes into them here. */
const states = {
  add: async ({ queue }: TestQueue) => await queue.add('a', {}, { retries: 3, retryDelay: '1m' }),
  start: async (log: TestQueue) => (await start(log)).id,
  error: async (log: TestQueue) => {
    const job = await start(log);
    await endTry(log, job);
    return job.id;
  },
  finish: async (log: TestQueue) => {
    const job = await start(log);
    await log.queue.finish(job);
    return job.id;
  },
  fail: async (log: TestQueue) => {
    const job = await start(log);
    await log.queue.fail(job);
    return job.id;
  },
} as const;

function start({ take }: TestQueue) {
  return take('a', { retries: 3, retryDelay: '1m' });
}

const events = {
  /** What is in error is due again after a while. */
  start: async ({ queue, clock }: TestQueue, id: number) => {
    clock.at += HOUR_MS / 2;
    const job = await queue.claim('a', { lease: '2h' });
    if (job?.id !== id) throw new Error('It cannot be taken');
  },
  finish: ({ queue }: TestQueue, id: number) => queue.finish(id),
  error: ({ queue }: TestQueue, id: number) => queue.retry(id),
  fail: ({ queue }: TestQueue, id: number) => queue.fail(id),
} as const;

type State = keyof typeof states;
type Event = keyof typeof events;

/** Job.php: from which states each transition is possible, and what it is called here. */
const possible: Readonly<Record<Event, { readonly from: readonly State[]; readonly to: string }>> = {
  start: { from: ['add', 'error'], to: 'running' },
  finish: { from: ['start'], to: 'finished' },
  error: { from: ['start'], to: 'retrying' },
  fail: { from: ['start'], to: 'failed' },
};

describe.each(Object.keys(events) as Event[])('LaterJob: %s', (event) => {
  test.each(Object.keys(states) as State[])('from %s', async (state) => {
    const log = await openTestQueue({ lease: '1h' });
    const id = await states[state](log);
    const { from, to } = possible[event];
    if (from.includes(state)) {
      await events[event](log, id);
      expect(log.row(id).state).toBe(to);
    } else {
      const before = log.row(id);
      await expect(events[event](log, id)).rejects.toThrow();
      expect(log.row(id)).toEqual(before);
    }
  });
});

test('LaterJob: what is in error can be failed without another try', async () => {
  const log = await openTestQueue();
  const id = await states.error(log);
  await log.queue.bury(id, { reason: 'given up' });
  expect(log.row(id)).toMatchObject({ state: 'failed', reason: 'given up' });
});

test('LaterJob: an error takes one of the tries, and the next one waits', async () => {
  const log = await openTestQueue();
  const { queue, clock, row } = log;
  const id = await queue.add('a', {}, { retries: 2, retryDelay: '1m' });
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const job = (await queue.claim()) as ClaimedJob;
    expect(job).toMatchObject({ id, attempt, maxAttempts: 3 });
    clock.at += 1;
    await endTry(log, job);
    expect(row(id)).toMatchObject({ state: 'retrying', run_at: clock.at + MINUTE_MS });
    expect(await queue.claim()).toBeNull();
    clock.at += MINUTE_MS;
  }
  await endTry(log, (await queue.claim()) as ClaimedJob);
  expect(row(id)).toMatchObject({ state: 'failed', attempts: 3 });
  clock.at += HOUR_MS;
  expect(await queue.claim()).toBeNull();
});

test('LaterJob: a worker locks as many as it asks for, those first that were added first', async () => {
  const { queue, clock } = await openTestQueue();
  const ids: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    ids.push(await queue.add('a'));
    clock.at += 1;
  }
  const first = await queue.claimMany('*', 3);
  const second = await queue.claimMany('*', 3);
  expect([first, second].map((jobs) => jobs.map(({ id }) => id))).toEqual([ids.slice(0, 3), ids.slice(3)]);
});

test('LaterJob: a job whose lock has run out is taken again, also one that was started (D6)', async () => {
  const { queue, take, clock, row } = await openTestQueue({ lease: '1m' });
  const lost = await take('a');
  clock.at += HOUR_MS;
  const again = await queue.claim();
  expect(again).toMatchObject({ id: lost.id });
  await expect(queue.finish(lost)).rejects.toMatchObject({ code: 'stale-claim' });
  await queue.finish(again ?? 0);
  expect(row(lost.id).state).toBe('finished');
});

test('LaterJob: a locked job cannot be removed, any other can', async () => {
  const log = await openTestQueue();
  const locked = await log.take('a');
  await expectRefused(log, 'wrong-state', () => log.queue.delete(locked.id));
  await log.queue.finish(locked);
  await log.queue.delete(locked.id);
  await log.queue.delete(await log.queue.add('a'));
});

test('LaterJob: that a job was added is told like everything else (D8)', async () => {
  const { queue, take, events: told, root } = await openTestQueue();
  const job = await take('a');
  await queue.finish(job);
  expect(told(job.id)).toEqual(['job-queued', 'run-started', 'job-finished']);
  changeLog(root, `insert into jobs (name) values ('by plain SQL')`);
  expect(told(job.id + 1)).toEqual(['job-queued']);
});
