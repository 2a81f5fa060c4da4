import { expect } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS, START } from '../../support/queue.ts';
import { type Cases, countersOf, expectRefused, pauseParent, takeNext } from './cases.ts';

/** A claim is taken back only this long after its lease. */
const AFTER_GRACE_MS = 2_001;

export const claimCases: Cases = {
  28: {
    title: 'what is due is taken, and its row tells since when',
    check: async ({ queue, row, clock }) => {
      const id = await queue.add('a', { n: 1 });
      const { data, name, priority, run_at, created_at } = row(id);
      clock.at += SECOND_MS;
      expect(await queue.claim('a')).toMatchObject({ id, name: 'a', data: { n: 1 }, attempt: 1 });
      expect(row(id)).toMatchObject({
        ...{ data, name, priority, run_at, created_at },
        state: 'running',
        started_at: START + SECOND_MS,
      });
    },
  },
  29: {
    title: "a child is told its parent's data, a resumed parent its children's",
    check: async (log) => {
      const { queue } = log;
      const { parent, ids } = await pauseParent(log);
      const child = await takeNext(log, 'child');
      expect(child).toMatchObject({ parent, parentData: { is: 'parent' } });
      await queue.finish(child, { result: 'done', data: { n: 'new' } });
      await queue.cancel(ids[1] as number);
      expect(await queue.claim('parent')).toMatchObject({
        parentData: null,
        children: {
          finished: [{ id: ids[0], name: 'child', data: { n: 'new' }, result: 'done' }],
          failed: [],
          cancelled: [{ id: ids[1], data: { n: 1 }, result: null }],
        },
      });
    },
  },
  30: {
    title: 'where nothing is due there is nothing, and it is told at once',
    check: async ({ queue, clock }) => {
      expect(await queue.claim()).toBeNull();
      await queue.add('a', {}, { runAt: '+1 minute' });
      expect(await queue.claim()).toBeNull();
      clock.at += MINUTE_MS;
      expect(await queue.claim()).not.toBeNull();
    },
  },
  31: {
    title: 'how many are taken has to be said, and of which name',
    check: async (log) => {
      await log.queue.add('a');
      const { queue } = log;
      await expectRefused(log, 'invalid', () => queue.claimMany('a', undefined as never));
      await expectRefused(log, 'invalid', () => queue.claimMany('', 1));
      await expectRefused(log, 'invalid', () => queue.claim([]));
    },
  },
  32: {
    title: 'as many are taken as there are, up to a number above 0',
    check: async (log) => {
      const { queue } = log;
      await queue.addMany([{ name: 'a' }, { name: 'a' }, { name: 'a' }]);
      for (const count of [0, -1, 'two', 1.5]) {
        await expectRefused(log, 'invalid', () => queue.claimMany('a', count as number));
      }
      expect(await queue.claimMany('a', 2)).toHaveLength(2);
      expect(await queue.claimMany('a', 5)).toHaveLength(1);
    },
  },
  33: {
    title: 'names are globs that tell capitals from small letters, alone or in a list',
    check: async ({ queue }) => {
      await queue.addMany([{ name: 'medium' }, { name: 'high', priority: 900 }, { name: 'mail/a' }]);
      expect(await queue.claim('HIGH')).toBeNull();
      expect(await queue.claim('Mail/*')).toBeNull();
      expect(await queue.claim(['medium', 'high'])).toMatchObject({ name: 'high' });
      expect(await queue.claim(['x', 'm?dium'])).toMatchObject({ name: 'medium' });
      expect(await queue.claim('m[a-c]il/*')).toMatchObject({ name: 'mail/a' });
    },
  },
  34: {
    title: 'the order is priority, then time, then number',
    check: async ({ queue, clock }) => {
      const ids = await queue.addMany([
        { name: 'a', priority: 500 },
        { name: 'b', priority: 500 },
        { name: 'c', priority: 500, runAt: START - 1 },
        { name: 'd', priority: 501, runAt: START + 1 },
      ]);
      clock.at += 2;
      const taken = (await queue.claimMany('*', 9)).map(({ id }) => id);
      expect(taken).toEqual([ids[3], ids[2], ids[0], ids[1]]);
    },
  },
  35: {
    title: 'what becomes due earlier comes earlier, and what is overdue by its priority',
    check: async ({ queue, clock }) => {
      const jobs = [
        { name: 'low', priority: 250, runAt: START + SECOND_MS },
        { name: 'medium', priority: 500, runAt: START + 4 * SECOND_MS },
        { name: 'high', priority: 1000, runAt: START + 7 * SECOND_MS },
      ];
      await queue.addMany([...jobs, ...jobs]);
      const names: string[] = [];
      for (let second = 1; second <= 7; second += 3) {
        clock.at = START + second * SECOND_MS;
        names.push((await queue.claim())?.name ?? 'none');
      }
      expect(names).toEqual(['low', 'medium', 'high']);
      const later = (await queue.claimMany('*', 9)).map(({ name }) => name);
      expect(later).toEqual(['high', 'medium', 'low']);
    },
  },
  36: {
    title: 'a priority may be asked for: as the lowest one',
    check: async (log) => {
      const { queue } = log;
      await queue.addMany([250, 500, 750].map((priority) => ({ name: 'a', priority })));
      const priorities = (await queue.claimMany('*', 9, { minPriority: 500 })).map(({ priority }) => priority);
      expect(priorities).toEqual([750, 500]);
      await expectRefused(log, 'invalid', () => queue.claim('*', { minPriority: 'high' as never }));
    },
  },
  37: {
    title: 'a job whose lease ran out is among the others by the same order',
    check: async ({ queue, take, clock }) => {
      const lost = await take('a', { priority: 600 });
      clock.at += HOUR_MS;
      await queue.addMany([
        { name: 'b', priority: 500 },
        { name: 'c', priority: 700 },
      ]);
      const names = (await queue.claimMany('*', 9)).map(({ name }) => name);
      expect(names).toEqual(['c', 'a', 'b']);
      await expect(queue.finish(lost)).rejects.toMatchObject({ code: 'stale-claim' });
    },
  },
  39: {
    title: 'of claims at the same time exactly one gets the job',
    check: async ({ queue }) => {
      await queue.add('a');
      const claims = await Promise.all(Array.from({ length: 10 }, () => queue.claim()));
      expect(claims.filter((job) => job !== null)).toHaveLength(1);
    },
  },
  40: {
    title: 'until when a claim holds is beside the time of the job, not in its place',
    check: async (log) => {
      const { queue, row } = log;
      const options = { lease: '5s', repeat: 'SCHEDULED, +10 SECONDS' };
      const id = await queue.add('a', {}, options);
      await takeNext(log, 'a');
      expect(row(id)).toMatchObject({ started_at: START, lease_expires_at: START + 5 * SECOND_MS, run_at: START });
    },
  },
  41: {
    title: 'how often a job was handed out is no part of its data',
    check: async (log) => {
      const { queue, row, clock } = log;
      const id = await queue.add('a', {}, { lease: '5s' });
      for (let reserves = 1; reserves <= 3; reserves += 1) {
        expect(await takeNext(log, 'a')).toMatchObject({ id, data: {} });
        expect(row(id).data).toBe('{}');
        expect(await countersOf(log, id)).toMatchObject({ reserves, timeouts: reserves - 1 });
        clock.at += MINUTE_MS;
      }
    },
  },
  42: {
    title: 'a job that is not ended in time is handed out again, and not before',
    check: async (log) => {
      const { queue, runs, clock } = log;
      const id = await queue.add('a', {}, { lease: '5s' });
      await takeNext(log, 'a');
      clock.at += 5 * SECOND_MS;
      expect(await queue.claim('a')).toBeNull();
      clock.at += AFTER_GRACE_MS;
      expect(await queue.claim('a')).toMatchObject({ id, attempt: 2 });
      expect(await countersOf(log, id)).toMatchObject({ reserves: 2, timeouts: 1 });
      expect(runs(id).map(({ outcome }) => outcome)).toEqual(['crashed', 'running']);
    },
  },
  43: {
    title: 'a job that ten workers have lost fails',
    check: async (log) => {
      const { queue, row, clock } = log;
      const id = await queue.add('a', {}, { lease: '5s' });
      for (let reserves = 1; reserves <= 10; reserves += 1) {
        expect(await takeNext(log, 'a')).toMatchObject({ id, counters: { reserves } });
        clock.at += MINUTE_MS;
      }
      expect(await queue.claim('a')).toBeNull();
      expect(row(id).state).toBe('failed');
      expect(await countersOf(log, id)).toMatchObject({ timeouts: 10, reserves: 10 });
    },
  },
  44: {
    title: 'who finishes or gives back a job gives it all its tries',
    check: async (log) => {
      const { queue, row, clock } = log;
      const id = await queue.add('a', {}, { lease: '5s', repeat: 'FINISHED, +0 SECONDS' });
      await takeNext(log, 'a');
      clock.at += MINUTE_MS;
      await queue.retry(await takeNext(log, 'a'), { ignoreRepeat: true });
      expect(row(id).attempts).toBe(1);
      expect(await countersOf(log, id)).toMatchObject({ timeouts: 1, releases: 1 });
      await queue.finish(await takeNext(log, 'a'));
      expect(row(id).attempts).toBe(0);
      expect(await countersOf(log, id)).toMatchObject({ timeouts: 1 });
    },
  },
  45: {
    title: 'no name is treated in a way of its own',
    check: async (log) => {
      const { queue, row, clock } = log;
      const id = await queue.add('manual/a', {}, { lease: '5s' });
      for (let n = 0; n < 10; n += 1) {
        await takeNext(log, 'manual/a');
        clock.at += MINUTE_MS;
      }
      expect(await queue.claim('*')).toBeNull();
      expect(row(id).state).toBe('failed');
    },
  },
  46: {
    title: 'a schedule does not drift, however often the job was handed out',
    check: async (log) => {
      const { queue, row, clock } = log;
      const id = await queue.add('a', {}, { lease: '5s', repeat: 'SCHEDULED, +1 HOUR' });
      for (let n = 0; n < 3; n += 1) {
        await takeNext(log, 'a');
        clock.at += MINUTE_MS;
      }
      await queue.finish(await takeNext(log, 'a'));
      expect(row(id)).toMatchObject({ run_at: START + HOUR_MS, scheduled_for: START + HOUR_MS });
    },
  },
  47: {
    title: 'a running job whose next time has passed is not handed out a second time',
    check: async (log) => {
      const { queue, clock } = log;
      const runAt = START - 10 * HOUR_MS;
      await queue.add('a', {}, { lease: '1h', runAt, repeat: 'SCHEDULED, +1 MINUTE' });
      await takeNext(log, 'a');
      clock.at += 30 * MINUTE_MS;
      expect(await queue.claim()).toBeNull();
    },
  },
  48: {
    title: 'a time that cannot be read cannot be in the log',
    check: async ({ root, queue }) => {
      const wrongTime = ['run_at', 'soon'];
      // MySQL does not say of deep JSON whether it is any.
      const wrongData = engine.name === 'mysql' ? [] : [['data', '{']];
      for (const [column, wrong] of [wrongTime, ...wrongData]) {
        const insert = `insert into jobs (name, ${column}) values ('a', ?)`;
        expect(() => changeLog(root, insert, wrong)).toThrow(/a job's|syntax|incorrect|constraint/i);
      }
      await queue.add('b');
      expect(await queue.claim()).toMatchObject({ name: 'b' });
    },
  },
};
