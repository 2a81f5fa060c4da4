import { expect } from 'vitest';
import { HOUR_MS, MINUTE_MS, openTestQueue, START } from '../../support/queue.ts';
import { type Cases, expectRefused, pauseParent, takeNext } from './cases.ts';

export const finishCases: Cases = {
  49: {
    title: 'finish of a number that no job has is refused, and of none',
    check: async (log) => {
      await expectRefused(log, 'no-such-job', () => log.queue.finish(99));
      await expectRefused(log, 'invalid', () => log.queue.finish(undefined as never));
    },
  },
  50: {
    title: 'only what runs is finished',
    check: async (log) => {
      const id = await log.queue.add('a');
      await expectRefused(log, 'wrong-state', () => log.queue.finish(id));
    },
  },
  51: {
    title: 'a job that is finished stays with its result and its runs, unless the settings say else',
    check: async ({ queue, take, row, runs }) => {
      const job = await take('a');
      await queue.finish(job, { result: { sent: true } });
      expect(row(job.id)).toMatchObject({ state: 'finished', result: '{"sent":true}' });
      expect(runs(job.id)).toMatchObject([{ outcome: 'succeeded', finished_at: START }]);
      const other = await openTestQueue({ archive: { 'mail/*': 'remove' } });
      const removed = await other.take('mail/a');
      await other.queue.finish(removed);
      expect(other.row(removed.id)).toBeUndefined();
      expect(other.runs(removed.id)).toEqual([]);
    },
  },
  52: {
    title: 'a repeating job is queued for its next time, under its number',
    check: async ({ queue, take, row, clock }) => {
      const job = await take('a', { repeat: 'FINISHED, +1 HOUR' });
      clock.at += MINUTE_MS;
      await queue.finish(job);
      expect(row(job.id)).toMatchObject({
        state: 'queued',
        run_at: START + HOUR_MS + MINUTE_MS,
        finished_at: null,
        attempts: 0,
      });
    },
  },
  53: {
    title: 'data that is given at the end is that of the next run',
    check: async ({ queue, take, clock }) => {
      const job = await take('a', { repeat: 'FINISHED, +1 HOUR' }, { failCount: 1, other: 1 });
      await queue.finish(job, { data: { failCount: 2 } });
      clock.at += HOUR_MS;
      expect((await queue.claim())?.data).toEqual({ failCount: 2 });
    },
  },
  54: {
    title: 'data says nothing to the queue; who wants no further run ends the rule',
    check: async (log) => {
      const { queue, take, row, clock } = log;
      const job = await take('a', { repeat: 'FINISHED, +1 HOUR' });
      await queue.finish(job, { data: { delete: true } });
      expect(row(job.id).state).toBe('queued');
      clock.at += HOUR_MS;
      const again = await takeNext(log, 'a');
      await queue.update(again, { repeat: null });
      await queue.finish(again);
      expect(row(job.id).state).toBe('finished');
    },
  },
  56: {
    title: 'finishing a second time is refused',
    check: async (log) => {
      const job = await log.take('a');
      await log.queue.finish(job, { result: 1 });
      await expectRefused(log, 'stale-claim', () => log.queue.finish(job, { result: 2 }));
      await expectRefused(log, 'wrong-state', () => log.queue.finish(job.id, { result: 2 }));
    },
  },
  57: {
    title: 'a parent that finishes waits for its children, which are queued',
    check: async (log) => {
      const { parent, ids } = await pauseParent(log);
      expect(log.row(parent)).toMatchObject({ state: 'paused', finished_at: null });
      expect(ids.map((id) => log.row(id).state)).toEqual(['queued', 'queued']);
      expect(log.events(parent).at(-1)).toBe('job-paused');
    },
  },
  58: {
    title: 'while a child is left the parent waits',
    check: async (log) => {
      const { parent, ids } = await pauseParent(log);
      await log.queue.finish(await takeNext(log, 'child'));
      expect(log.row(ids[0] as number).state).toBe('finished');
      expect(log.row(parent).state).toBe('paused');
    },
  },
  59: {
    title: 'the last child that finishes resumes its parent at once',
    check: async (log) => {
      const { parent } = await pauseParent(log);
      for (const _ of [1, 2]) await log.queue.finish(await takeNext(log, 'child'));
      expect(log.row(parent)).toMatchObject({ state: 'queued', run_at: log.clock.at });
      expect(await log.queue.claim()).toMatchObject({ id: parent });
    },
  },
  60: {
    title: 'a resumed parent is told of its children, finishes, and they are kept beside it',
    check: async (log) => {
      const { queue, row } = log;
      const { parent, ids } = await pauseParent(log);
      await queue.finish(await takeNext(log, 'child'));
      await queue.cancel(ids[1] as number);
      const resumed = await takeNext(log, 'parent');
      expect(resumed.children).toMatchObject({ finished: [{}], cancelled: [{}] });
      await queue.finish(resumed);
      const states = [parent, ...ids].map((id) => row(id).state);
      expect(states).toEqual(['finished', 'finished', 'cancelled']);
    },
  },
  61: {
    title: 'a resumed parent may have new children; of the old ones it is told once',
    check: async (log) => {
      const { queue, row } = log;
      const { parent } = await pauseParent(log, 1);
      await queue.finish(await takeNext(log, 'child'));
      const resumed = await takeNext(log, 'parent');
      const second = await queue.add('child', { n: 'second' }, { parent });
      await queue.finish(resumed);
      expect(row(parent).state).toBe('paused');
      await queue.finish(await takeNext(log, 'child'));
      const { children } = await takeNext(log, 'parent');
      expect(children).toMatchObject({ finished: [{ id: second }], failed: [], cancelled: [] });
    },
  },
  62: {
    title: 'a child cannot repeat',
    check: async (log) => {
      const parent = await log.take('parent');
      const options = { parent: parent.id, repeat: 'DAILY' };
      await expectRefused(log, 'invalid', () => log.queue.add('child', {}, options));
      const child = await log.queue.add('child', {}, { parent: parent.id });
      await expectRefused(log, 'invalid', () => log.queue.update(child, { repeat: 'DAILY' }));
    },
  },
  63: {
    title: "a child's end counts whatever has become of its parent; it is not tried again for nobody",
    check: async (log) => {
      const { queue, row } = log;
      const { parent, ids } = await pauseParent(log);
      const [one, two] = [await takeNext(log, 'child'), await takeNext(log, 'child')];
      await queue.cancel(parent);
      await queue.finish(one, { result: 1 });
      await queue.retry(two);
      expect(ids.map((id) => row(id).state)).toEqual(['finished', 'cancelled']);
    },
  },
  64: {
    title: 'the last child that fails resumes its parent, or fails it, as that has asked for',
    check: async (log) => {
      const { queue, take, row } = log;
      for (const onChildFailure of ['resume', 'fail'] as const) {
        const parent = await take('parent', { onChildFailure });
        const [failed] = await queue.addMany([
          { name: 'child', parent: parent.id },
          { name: 'child', parent: parent.id },
        ]);
        await queue.finish(parent);
        await queue.fail(await takeNext(log, 'child'));
        expect(row(parent.id).state).toBe('paused');
        await queue.finish(await takeNext(log, 'child'));
        if (onChildFailure === 'resume') {
          const { children } = await takeNext(log, 'parent');
          expect(children).toMatchObject({ finished: [{}], failed: [{ id: failed }] });
        } else {
          expect(row(parent.id)).toMatchObject({
            state: 'failed',
            reason: `its child, job ${failed} (child), has failed`,
          });
        }
      }
    },
  },
  65: {
    title: 'a parent with a failed child can finish',
    check: async (log) => {
      const { parent } = await pauseParent(log, 1);
      await log.queue.fail(await takeNext(log, 'child'));
      await log.queue.finish(await takeNext(log, 'parent'));
      expect(log.row(parent).state).toBe('finished');
    },
  },
  67: {
    title: 'a parent that is given back does not wait for its children, and is told of them again',
    check: async (log) => {
      const { queue, row } = log;
      const { parent, ids } = await pauseParent(log, 1);
      await queue.finish(await takeNext(log, 'child'));
      const resumed = await takeNext(log, 'parent');
      const second = await queue.add('child', {}, { parent });
      await queue.retry(resumed);
      expect(row(parent).state).toBe('retrying');
      expect(row(second).state).toBe('paused');
      expect((await takeNext(log, 'parent')).children).toMatchObject({ finished: [{ id: ids[0] }] });
    },
  },
  68: {
    title: "a parent's lease runs out: it is handed out again, and its children go on waiting",
    check: async (log) => {
      const { queue, take, row, clock } = log;
      const parent = await take('parent', { lease: '5s' });
      const child = await queue.add('child', {}, { parent: parent.id });
      clock.at += MINUTE_MS;
      expect(await takeNext(log, '*')).toMatchObject({ id: parent.id, attempt: 2 });
      expect(row(child).state).toBe('paused');
    },
  },
};
