import { expect } from 'vitest';
import { HOUR_MS, MINUTE_MS, START } from '../../support/queue.ts';
import { type Cases, countersOf, expectRefused, pauseParent, takeNext } from './cases.ts';

export const changeCases: Cases = {
  82: {
    title: 'what runs is not deleted, nor a parent that waits',
    check: async (log) => {
      const { queue, take } = log;
      await expectRefused(log, 'no-such-job', () => queue.delete(99));
      const running = await take('a');
      await expectRefused(log, 'wrong-state', () => queue.delete(running.id));
      const { parent } = await pauseParent(log);
      await expectRefused(log, 'wrong-state', () => queue.delete(parent));
    },
  },
  83: {
    title: 'everything else is deleted, with its children',
    check: async (log) => {
      const { queue, take, row } = log;
      const queued = await queue.add('a');
      const finished = await take('b');
      await queue.finish(finished);
      const failed = await take('b');
      await queue.fail(failed);
      const cancelled = await queue.add('a');
      await queue.cancel(cancelled);
      const leased = await take('c', { lease: '1h' });
      await expectRefused(log, 'wrong-state', () => queue.delete(leased.id));
      const { parent, ids } = await pauseParent(log, 1);
      await queue.finish(await takeNext(log, 'child'));
      for (const id of [queued, finished.id, failed.id, cancelled, parent]) {
        await queue.delete(id);
        expect(row(id)).toBeUndefined();
      }
      expect(row(ids[0] as number)).toBeUndefined();
    },
  },
  84: {
    title: 'an update says something, and not too much',
    check: async (log) => {
      const { queue } = log;
      const id = await queue.add('a');
      await expectRefused(log, 'invalid', () => queue.update(id, {}));
      const large = { data: 'x'.repeat(2 ** 20) };
      await expectRefused(log, 'invalid', () => queue.update(id, large));
      await expectRefused(log, 'no-such-job', () => queue.update(99, { data: 1 }));
    },
  },
  85: {
    title: 'an update works in every state, and changes none',
    check: async (log) => {
      const { queue, take, row } = log;
      const { parent, ids } = await pauseParent(log);
      const running = await take('a');
      const finished = await take('b');
      await queue.finish(finished);
      const retrying = await take('c');
      await queue.retry(retrying);
      const failed = await take('d');
      await queue.fail(failed);
      const cancelled = await queue.add('e');
      await queue.cancel(cancelled);
      const jobs = [parent, ...ids, running.id, finished.id, retrying.id, failed.id, cancelled];
      const states = jobs.map((id) => row(id).state);
      for (const id of jobs) await queue.update(id, { data: { new: id }, priority: 7 });
      expect(jobs.map((id) => row(id).state)).toEqual(states);
      expect(jobs.map((id) => row(id).data)).toEqual(jobs.map((id) => `{"new":${id}}`));
    },
  },
  86: {
    title: 'data is replaced, text stays text, and a value that is not JSON is refused',
    check: async (log) => {
      const { queue, row } = log;
      const id = await queue.add('a', { n: 1, m: 1 });
      await queue.update(id, { data: { n: 2 } });
      expect(row(id).data).toBe('{"n":2}');
      await queue.update(id, { data: '1234' });
      expect(row(id).data).toBe('"1234"');
      await expectRefused(log, 'invalid', () => queue.update(id, { data: (() => 1) as never }));
    },
  },
  87: {
    title: 'a new rule gives a new time, unless that is said',
    check: async (log) => {
      const { queue, row } = log;
      const id = await queue.add('a');
      await expectRefused(log, 'invalid', () => queue.update(id, { repeat: 'blabla' }));
      await queue.update(id, { repeat: 'scheduled, +2 hours' });
      expect(row(id)).toMatchObject({ repeat: 'SCHEDULED, +2 HOURS', run_at: START + 2 * HOUR_MS });
      const runAt = Date.UTC(2020, 0, 1);
      await queue.update(id, { repeat: 'HOURLY', priority: 1000, runAt });
      expect(row(id)).toMatchObject({ repeat: 'HOURLY', priority: 1000, run_at: runAt });
    },
  },
  88: {
    title: 'null ends a rule; an empty one is refused',
    check: async (log) => {
      const { queue, row } = log;
      const id = await queue.add('a', {}, { repeat: 'DAILY' });
      await expectRefused(log, 'invalid', () => queue.update(id, { repeat: '' }));
      await queue.update(id, { repeat: null });
      expect(row(id).repeat).toBeNull();
    },
  },
  90: {
    title: 'STARTED is refused for a job that has never started',
    check: async (log) => {
      const id = await log.queue.add('a');
      const repeat = 'STARTED, +1 HOUR';
      await expectRefused(log, 'invalid', () => log.queue.update(id, { repeat }));
    },
  },
  91: {
    title: 'a job is told of without being changed; of what there is not, nothing',
    check: async (log) => {
      const { queue, dump } = log;
      const id = await queue.add('a', { n: 1 });
      const before = dump();
      expect(await queue.get(id)).toMatchObject({
        id,
        name: 'a',
        state: 'queued',
        data: { n: 1 },
        priority: 500,
        repeat: null,
        runAt: new Date(START),
        createdAt: new Date(START),
        startedAt: null,
      });
      expect(await queue.get(99)).toBeNull();
      await expectRefused(log, 'invalid', () => queue.get('x' as never));
      expect(dump()).toBe(before);
    },
  },
  92: {
    title: 'requeued jobs are due since they were added, and may change their name',
    check: async ({ queue, take, row, clock }) => {
      const running = await take('a');
      const leased = await take('b', { lease: '1h' });
      const delayed = await queue.add('c', {}, { runAt: '2042-04-02T00:42:42Z' });
      clock.at += MINUTE_MS;
      const ids = [running.id, leased.id, delayed];
      expect(await queue.requeue(ids, { name: 'mail/d' })).toBe(3);
      for (const id of ids) {
        expect(row(id)).toMatchObject({ state: 'queued', run_at: START, name: 'mail/d' });
      }
      const taken = (await queue.claimMany('mail/d', 9)).map(({ id }) => id);
      expect(taken).toEqual(ids);
    },
  },
  93: {
    title: 'a claim can be forgotten; what there is not is passed over, what has ended comes back',
    check: async ({ queue, take, row }) => {
      const lost = await take('a');
      expect(await queue.requeue([lost.id, 99], { forgetTry: true })).toBe(1);
      expect(row(lost.id).attempts).toBe(0);
      expect(await queue.requeue([])).toBe(0);
      const failed = await take('b');
      await queue.fail(failed);
      await queue.requeue([failed.id]);
      expect(row(failed.id)).toMatchObject({ state: 'queued', finished_at: null, reason: null });
    },
  },
  94: {
    title: 'claims that are lost on their way cost a job no try, however many',
    check: async (log) => {
      const { queue, row } = log;
      const id = await queue.add('a', {}, { lease: '5s' });
      for (let n = 0; n < 15; n += 1) {
        await takeNext(log, 'a');
        await queue.requeue([id], { forgetTry: true });
      }
      expect(row(id)).toMatchObject({ state: 'queued', attempts: 0 });
      expect(await countersOf(log, id)).toMatchObject({ reserves: 15 });
      expect((await takeNext(log, 'a')).attempt).toBe(1);
    },
  },
  95: {
    title: 'a worker that dies loses its job to the next one, whatever the job says',
    check: async (log) => {
      const lost = await log.take('a');
      log.clock.at += HOUR_MS;
      expect(await takeNext(log, 'a')).toMatchObject({ id: lost.id, attempt: 2 });
    },
  },
  96: {
    title: 'a fail-fast pause fails what is due of it, and lets through what is not',
    check: async ({ queue, row, clock }) => {
      const bad = await queue.addMany(Array.from({ length: 15 }, (_, n) => ({ name: 'bad/job', data: n })));
      const good = await queue.add('good', {}, { priority: 1 });
      const later = await queue.add('bad/later', {}, { runAt: '+1h' });
      await queue.pause('bad/*', { fail: true });
      expect(await queue.claimMany('*', 10)).toMatchObject([{ id: good }]);
      expect(bad.map((id) => row(id).state)).toEqual(Array(15).fill('failed'));
      expect(row(later).state).toBe('queued');
      await queue.resume('bad/*');
      clock.at += HOUR_MS;
      expect(await queue.claim()).toMatchObject({ id: later });
    },
  },
};
