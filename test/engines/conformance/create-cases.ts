import { expect } from 'vitest';
import { MINUTE_MS, START, type TestQueue } from '../../support/queue.ts';
import { type Cases, expectRefused, pauseParent, takeNext } from './cases.ts';

const key = { uniqueKey: 'mail/a' };

/** Adding a job that no parent can have. */
const addChild = ({ queue }: TestQueue, parent: number) => queue.add('child', {}, { parent });

export const createCases: Cases = {
  1: {
    title: 'a name alone is enough',
    check: async ({ queue, row }) => {
      const id = await queue.add('mail/a');
      expect(id).toBeGreaterThan(0);
      expect(row(id)).toMatchObject({
        state: 'queued',
        run_at: START,
        created_at: START,
        started_at: null,
        repeat: null,
        data: '{}',
        priority: 500,
        parent_id: null,
        lease_ms: null,
      });
    },
  },
  2: {
    title: 'a name has 1 to 255 characters',
    check: async (log) => {
      await expectRefused(log, 'invalid', () => log.queue.add(''));
      await expectRefused(log, 'invalid', () => log.queue.add(undefined as never));
      await expectRefused(log, 'invalid', () => log.queue.add('x'.repeat(256)));
      expect(await log.queue.add('x'.repeat(255))).toBeGreaterThan(0);
    },
  },
  3: {
    title: 'a priority is kept',
    check: async ({ queue, row }) => {
      expect(row(await queue.add('a', {}, { priority: 1000 })).priority).toBe(1000);
    },
  },
  4: {
    title: 'a priority is any whole number, and no text',
    check: async (log) => {
      for (const priority of [0, 1, 499, -5]) {
        expect(log.row(await log.queue.add('a', {}, { priority })).priority).toBe(priority);
      }
      for (const priority of ['abc', '500', 1.5, null, Number.NaN]) {
        const wrong = { priority: priority as number };
        await expectRefused(log, 'invalid', () => log.queue.add('a', {}, wrong));
      }
    },
  },
  5: {
    title: 'data is kept as it is, be it any JSON, and nothing else',
    check: async (log) => {
      const { queue, row } = log;
      const text = '{"blabla":"blabla"}';
      expect(row(await queue.add('a', JSON.parse(text))).data).toBe(text);
      for (const data of [{}, [], 'x', 1, null, false]) {
        expect((await queue.get(await queue.add('a', data)))?.data).toEqual(data);
      }
      expect(row(await queue.add('a', undefined)).data).toBe('{}');
      for (const data of [() => 1, Symbol('x'), 1n]) {
        await expectRefused(log, 'invalid', () => queue.add('a', data));
      }
    },
  },
  6: {
    title: 'a rule is kept in capitals, and delays no first run',
    check: async ({ queue, row }) => {
      const id = await queue.add('a', {}, { repeat: 'Scheduled, +1 hour' });
      expect(row(id)).toMatchObject({ repeat: 'SCHEDULED, +1 HOUR', run_at: START });
    },
  },
  7: {
    title: 'a wrong rule is refused, an empty one is none',
    check: async (log) => {
      await expectRefused(log, 'invalid', () => log.queue.add('a', {}, { repeat: 'blabla' }));
      expect(log.row(await log.queue.add('a', {}, { repeat: '' })).repeat).toBeNull();
    },
  },
  8: {
    title: 'a time is kept exactly, and a wrong one is refused',
    check: async (log) => {
      const { queue, row } = log;
      const at = (runAt: string) => queue.add('a', {}, { runAt });
      expect(row(await at('2042-04-02T00:42:42Z')).run_at).toBe(Date.UTC(2042, 3, 2, 0, 42, 42));
      const local = new Date(2042, 3, 2, 0, 42, 42).getTime();
      for (const text of ['2042-04-02 00:42:42', '2042-04-02T00:42:42']) {
        expect(row(await at(text)).run_at).toBe(local);
      }
      for (const text of ['blabla', '2042-13-02 00:42:42', '2042-04-31', '']) {
        await expectRefused(log, 'invalid', () => at(text));
      }
    },
  },
  10: {
    title: 'a unique job that exists already is given back as it is',
    check: async ({ queue, dump }) => {
      const id = await queue.add('mail/a', { n: 1 }, key);
      const before = dump();
      expect(await queue.add('mail/a', { n: 1 }, key)).toBe(id);
      expect(dump()).toBe(before);
    },
  },
  11: {
    title: 'data of a unique job is merged by RFC 7396, and nothing else changes',
    check: async ({ queue, row, clock }) => {
      const first = { a: 1, b: 2, nestedObject: { A: 1, B: 2 }, nestedArray: [1, 2] };
      const second = { c: 3, d: 4, nestedObject: { C: 3, D: 4 }, nestedArray: [3, 4] };
      const id = await queue.add('a', first, key);
      const { data: _, ...others } = row(id);
      clock.at += MINUTE_MS;
      expect(await queue.add('a', second, { ...key, onDuplicate: 'merge' })).toBe(id);
      expect(row(id)).toEqual({
        ...others,
        data: '{"a":1,"b":2,"nestedObject":{"A":1,"B":2,"C":3,"D":4},"nestedArray":[3,4],' + '"c":3,"d":4}',
      });
      await queue.add('a', { a: null, b: { x: 1 } }, { ...key, onDuplicate: 'merge' });
      expect((await queue.get(id))?.data).toMatchObject({ b: { x: 1 } });
      expect((await queue.get(id))?.data).not.toHaveProperty('a');
    },
  },
  12: {
    title: 'a unique job is left alone unless something else is said',
    check: async ({ queue, dump }) => {
      const id = await queue.add('a', { n: 1 }, key);
      const before = dump();
      expect(await queue.add('a', { n: 2 }, { ...key, onDuplicate: 'keep' })).toBe(id);
      expect(await queue.add('a', { n: 2 }, key)).toBe(id);
      expect(dump()).toBe(before);
    },
  },
  13: {
    title: 'of a unique job only the data is replaced',
    check: async ({ queue, row }) => {
      const id = await queue.add('a', { n: 1 }, { ...key, priority: 900, repeat: 'DAILY' });
      const options = { ...key, onDuplicate: 'replace', runAt: '+1h', priority: 1 } as const;
      expect(await queue.add('a', { n: 2 }, options)).toBe(id);
      expect(row(id)).toMatchObject({ data: '{"n":2}', priority: 900, repeat: 'DAILY', run_at: START });
    },
  },
  14: {
    title: 'a job that has ended blocks no unique key, whatever its name; one that has not does',
    check: async ({ queue, take }) => {
      const job = await take('a', key);
      expect(await queue.add('b', {}, key)).toBe(job.id);
      await queue.fail(job);
      const next = await take('a', key);
      await queue.retry(next, { delay: '1h' });
      expect(await queue.add('a', {}, key)).toBe(next.id);
      await queue.cancel(next.id);
      expect(await queue.add('a', {}, key)).not.toBe(next.id);
    },
  },
  15: {
    title: 'a unique key is text, or there is none',
    check: async (log) => {
      for (const uniqueKey of [true, 1, '', null]) {
        const wrong = { uniqueKey: uniqueKey as string };
        await expectRefused(log, 'invalid', () => log.queue.add('a', {}, wrong));
      }
      const ids = [await log.queue.add('a'), await log.queue.add('a')];
      expect(new Set(ids).size).toBe(2);
    },
  },
  16: {
    title: 'a job may have a lease of its own, with its unit, and a unique key',
    check: async (log) => {
      const { queue, row } = log;
      expect(row(await queue.add('a', {}, { ...key, lease: '10h' })).lease_ms).toBe(36_000_000);
      await expectRefused(log, 'invalid', () => queue.add('b', {}, { lease: '10' }));
    },
  },
  17: {
    title: 'a parent that there is not is refused',
    check: async (log) => {
      await expectRefused(log, 'no-such-job', () => addChild(log, 99));
    },
  },
  18: {
    title: 'a parent has to run, or to wait for its children',
    check: async (log) => {
      const { queue, take } = log;
      const queued = await queue.add('queued');
      const retrying = await take('retrying');
      await queue.retry(retrying);
      const failed = await take('failed');
      await queue.fail(failed);
      const finished = await take('finished');
      await queue.finish(finished);
      const cancelled = await queue.add('cancelled');
      await queue.cancel(cancelled);
      for (const parent of [queued, retrying.id, failed.id, finished.id, cancelled]) {
        await expectRefused(log, 'wrong-state', () => addChild(log, parent));
      }
    },
  },
  19: {
    title: "a running parent's child waits for it; that of a paused one is queued at once",
    check: async (log) => {
      const parent = await log.take('parent');
      const child = await addChild(log, parent.id);
      expect(log.row(child).state).toBe('paused');
      expect(log.row(parent.id).state).toBe('running');
      await log.queue.finish(parent);
      expect(log.row(await addChild(log, parent.id)).state).toBe('queued');
    },
  },
  20: {
    title: 'there are no grandchildren',
    check: async (log) => {
      await pauseParent(log, 1);
      const child = await takeNext(log, 'child');
      await expectRefused(log, 'wrong-state', () => addChild(log, child.id));
    },
  },
  21: {
    title: 'a unique job of another parent is refused as a child',
    check: async (log) => {
      const { queue, take } = log;
      const [one, two] = [await take('parent'), await take('parent')];
      const child = await queue.add('child', {}, { ...key, parent: one.id });
      expect(await queue.add('child', {}, { ...key, parent: one.id })).toBe(child);
      const other = () => queue.add('child', {}, { ...key, parent: two.id });
      await expectRefused(log, 'wrong-state', other);
    },
  },
  24: {
    title: 'several jobs are added in their order',
    check: async ({ queue, row }) => {
      const ids = await queue.addMany([{ name: 'a' }, { name: 'b', data: 2 }, { name: 'a' }]);
      expect(ids).toEqual(ids.toSorted((one, other) => one - other));
      expect(ids.map((id) => row(id).name)).toEqual(['a', 'b', 'a']);
    },
  },
  25: {
    title: 'what is no list of jobs is refused; an empty list adds nothing',
    check: async (log) => {
      for (const jobs of ['x', null, {}, [1], [null], [{ name: 'a' }, 'b'], [{ data: 1 }]]) {
        await expectRefused(log, 'invalid', () => log.queue.addMany(jobs as never));
      }
      expect(await log.queue.addMany([])).toEqual([]);
    },
  },
  26: {
    title: 'where one of several is wrong none is added',
    check: async (log) => {
      const queued = await log.queue.add('parent');
      const good = { name: 'a' };
      for (const [code, bad] of [
        ['wrong-state', { name: 'b', parent: queued }],
        ['no-such-job', { name: 'b', parent: 99 }],
        ['invalid', { name: 'b', repeat: 'blabla' }],
        ['invalid', { name: '' }],
      ] as const) {
        await expectRefused(log, code, () => log.queue.addMany([good, bad, good]));
      }
    },
  },
  27: {
    title: 'among several, a unique one that is there keeps its number',
    check: async ({ queue }) => {
      const id = await queue.add('a', {}, key);
      const ids = await queue.addMany([{ name: 'b' }, { name: 'a', ...key }, { name: 'c' }]);
      expect(ids).toEqual([id + 1, id, id + 2]);
    },
  },
};
