import { expect } from 'vitest';
import type { RetryOptions } from '../../../src/queue/api.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS, START } from '../../support/queue.ts';
import { type Cases, expectRefused, pauseParent, takeNext } from './cases.ts';

export const retryCases: Cases = {
  69: {
    title: 'retry is for a job that there is and that runs',
    check: async (log) => {
      const id = await log.queue.add('a');
      await expectRefused(log, 'no-such-job', () => log.queue.retry(99));
      await expectRefused(log, 'wrong-state', () => log.queue.retry(id));
    },
  },
  70: {
    title: 'the rule decides when, else the time that is said, else the delay, else it is now',
    check: async ({ queue, take, row }) => {
      const repeat = 'FINISHED, +1 HOUR';
      const runAt = START + 5 * HOUR_MS;
      const ways: readonly [string | undefined, RetryOptions, number][] = [
        [repeat, {}, HOUR_MS],
        [repeat, { runAt }, HOUR_MS],
        [repeat, { delay: '10s' }, HOUR_MS],
        [repeat, { runAt, delay: '10s', ignoreRepeat: true }, 5 * HOUR_MS],
        [repeat, { ignoreRepeat: true }, 0],
        [undefined, { runAt, delay: '10s' }, 5 * HOUR_MS],
        [undefined, { runAt }, 5 * HOUR_MS],
        [undefined, { delay: '10s' }, 10 * SECOND_MS],
        [undefined, {}, 0],
      ];
      for (const [index, [rule, options, laterMs]] of ways.entries()) {
        const job = await take(`way/${index}`, rule === undefined ? {} : { repeat: rule });
        await queue.retry(job, options);
        expect(row(job.id).run_at - START).toBe(laterMs);
      }
    },
  },
  71: {
    title: 'a delay is none, or as long as a date can be away',
    check: async (log) => {
      const job = await log.take('a');
      for (const delay of ['-5s', '-1', 'soon', '9999999999999 days']) {
        await expectRefused(log, 'invalid', () => log.queue.retry(job, { delay }));
      }
      await log.queue.retry(job, { delay: '99999999s' });
      expect(log.row(job.id).run_at).toBe(START + 99_999_999 * SECOND_MS);
    },
  },
  72: {
    title: 'the name and the priority may change',
    check: async (log) => {
      const { queue, take, row } = log;
      const job = await take('a');
      await expectRefused(log, 'invalid', () => queue.retry(job, { priority: 1.5 }));
      await expectRefused(log, 'invalid', () => queue.retry(job, { name: '../x' }));
      await queue.retry(job, { name: 'mail/b', priority: 1000 });
      expect(row(job.id)).toMatchObject({ name: 'mail/b', priority: 1000 });
      expect(await queue.claim('a')).toBeNull();
      expect(await queue.claim('mail/*')).toMatchObject({ id: job.id });
    },
  },
  73: {
    title: 'data is replaced, and the job waits for its next try',
    check: async ({ queue, take, row }) => {
      const job = await take('a', {}, { n: 1, m: 1 });
      await queue.retry(job, { data: { n: 2 }, reason: 'the server said 451' });
      expect(row(job.id)).toMatchObject({ state: 'retrying', data: '{"n":2}', reason: 'the server said 451' });
    },
  },
  74: {
    title: 'STARTED counts from the last claim',
    check: async ({ queue, take, row, clock }) => {
      const job = await take('a', { repeat: 'STARTED, +1 HOUR', lease: '1h' });
      clock.at += 10 * MINUTE_MS;
      await queue.retry(job);
      const { run_at, started_at, state } = row(job.id);
      expect(state).toBe('queued');
      expect(run_at - (started_at as number)).toBe(HOUR_MS);
    },
  },
  75: {
    title: 'the rule is left aside once only',
    check: async (log) => {
      const job = await log.take('a', { repeat: 'FINISHED, +1 HOUR' });
      await log.queue.retry(job, { ignoreRepeat: true });
      await log.queue.finish(await takeNext(log, 'a'));
      expect(log.row(job.id).run_at).toBe(START + HOUR_MS);
    },
  },
  76: {
    title: 'fail is for a job that there is and that runs',
    check: async (log) => {
      const id = await log.queue.add('a');
      await expectRefused(log, 'no-such-job', () => log.queue.fail(99));
      await expectRefused(log, 'wrong-state', () => log.queue.fail(id));
    },
  },
  77: {
    title: 'a job that fails stays, with the data it was given, whatever tries and rule it has',
    check: async ({ queue, take, row, runs }) => {
      const job = await take('a', { retries: 5, repeat: 'HOURLY' }, { n: 1 });
      await queue.fail(job, { data: { n: 2 }, reason: 'no such address' });
      expect(row(job.id)).toMatchObject({
        state: 'failed',
        data: '{"n":2}',
        repeat: 'HOURLY',
        reason: 'no such address',
        finished_at: START,
      });
      expect(runs(job.id)).toMatchObject([{ outcome: 'failed', reason: 'no such address' }]);
    },
  },
  78: {
    title: 'any job that waits can be cancelled, a parent with what waits of its children',
    check: async (log) => {
      const { queue, row } = log;
      await expectRefused(log, 'no-such-job', () => queue.cancel(99));
      const single = await queue.add('a');
      await queue.cancel(single);
      const { parent, ids } = await pauseParent(log);
      await queue.cancel(parent);
      const states = [single, parent, ...ids].map((id) => row(id).state);
      expect(states).toEqual(Array(4).fill('cancelled'));
    },
  },
  79: {
    title: 'a child that runs or has finished is not cancelled, one that is paused is',
    check: async (log) => {
      const { queue, take, row } = log;
      await pauseParent(log, 1);
      const running = await takeNext(log, 'child');
      await expectRefused(log, 'wrong-state', () => queue.cancel(running.id));
      await queue.finish(running);
      await expectRefused(log, 'wrong-state', () => queue.cancel(running.id));
      const parent = await take('other');
      const paused = await queue.add('child', {}, { parent: parent.id });
      await queue.cancel(paused);
      expect(row(paused).state).toBe('cancelled');
    },
  },
  80: {
    title: 'a queued, retrying or failed child is cancelled, the last one resumes its parent',
    check: async (log) => {
      const { queue, row } = log;
      const { parent, ids } = await pauseParent(log, 3);
      await queue.retry(await takeNext(log, 'child'), { delay: '1h' });
      await queue.fail(await takeNext(log, 'child'));
      for (const [index, id] of ids.entries()) {
        expect(row(parent).state).toBe('paused');
        await queue.cancel(id);
        expect(row(id).state).toBe('cancelled');
        if (index < 2) expect(row(parent).state).toBe('paused');
      }
      expect(row(parent).state).toBe('queued');
    },
  },
  81: {
    title: 'cancelling a failed child leaves a parent alone that runs again',
    check: async (log) => {
      const { queue, row } = log;
      const { parent, ids } = await pauseParent(log, 1);
      await queue.fail(await takeNext(log, 'child'));
      const resumed = await takeNext(log, 'parent');
      await queue.cancel(ids[0] as number);
      expect(row(parent)).toMatchObject({ state: 'running', claim_token: resumed.token });
    },
  },
};
