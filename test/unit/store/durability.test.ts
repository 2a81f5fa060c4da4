import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Durability } from '../../../src/store/sqlite/session.ts';
import type { StoreSession } from '../../../src/store/store.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { openRecordedStore } from './recorded-store.ts';

const change = ({ events }: StoreSession) => events.record([{ at: 1, event: 'job-updated' }]);
const nothing = async (): Promise<void> => {};

/** A log whose last write is on the disk. */
async function open() {
  const { store, commits } = await openRecordedStore(makeTemporaryRoot());
  const write = (work: typeof change = change, durability: Durability = 'soon') => store.transaction(work, durability);
  await write(change, 'durable');
  return { store, commits, write };
}

test('a durable write is on the disk when it has ended, with all that came before', async () => {
  const { store, commits, write } = await open();
  expect(commits.durable).toBe(commits.changing);
  await write();
  expect(commits.durable).toBe(commits.changing - 1);
  const told: string[] = [];
  store.onDurable(() => told.push('soon'));
  await write(change, 'durable');
  expect([commits.durable, told]).toEqual([commits.changing, ['soon']]);
});

test('a write that is durable soon waits for no disk, and is told of only once it is there', async () => {
  const { store, commits, write } = await open();
  const told: string[] = [];
  store.onDurable(() => told.push('before'));
  expect(told).toEqual(['before']);
  await write();
  store.onDurable(() => told.push('at once'));
  expect([commits.changing - commits.durable, told]).toEqual([1, ['before']]);
  await store.sync();
  expect([commits.changing - commits.durable, told]).toEqual([0, ['before', 'at once']]);
  // There is nothing more to wait for.
  const before = { ...commits };
  await store.sync();
  expect(commits).toEqual(before);
});

test('what nothing follows is on the disk and told of soon, by itself', async () => {
  const { store, commits, write } = await open();
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  await until('it is told', () => isTold);
});

test('a turn that writes nothing neither counts as a write, nor as one that reached the disk', async () => {
  const { store, commits, write } = await open();
  const before = { ...commits };
  await write(nothing);
  await write(nothing, 'durable');
  await store.sync();
  expect(commits).toEqual(before);
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  await until('it is told', async () => {
    await write(nothing);
    return isTold;
  });
});

test('a write that fails is told of to nobody, and takes nothing with it', async () => {
  const { store, commits, write } = await open();
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
  });
  const fail = write(async (session) => {
    await change(session);
    throw new Error('no');
  }, 'durable');
  await expect(fail).rejects.toThrow('no');
  expect([isTold, commits.durable < commits.changing]).toEqual([false, true]);
  await store.sync();
  expect(isTold).toBe(true);
});

test('whatever is written in whatever order, nobody is told of what is not on the disk', async () => {
  const step = fc.record({
    writers: fc.integer({ min: 1, max: 3 }),
    isChange: fc.boolean(),
    durability: fc.constantFrom<Durability>('soon', 'soon', 'durable'),
    restMs: fc.constantFrom(0, 0, 0, 5, 25),
  });
  const { store, commits, write } = await open();
  let told = 0;
  let asked = 0;
  const ask = async (isChange: boolean, durability: Durability): Promise<void> => {
    await write(isChange ? change : nothing, durability);
    const { changing } = commits;
    asked += 1;
    store.onDurable(() => {
      told += 1;
      expect(commits.durable).toBeGreaterThanOrEqual(changing);
    });
  };
  const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
    for (const { writers, isChange, durability, restMs } of steps) {
      const asks = Array.from({ length: writers }, (_, n) => ask(isChange || n === 1, durability));
      await Promise.all(asks);
      await sleep(restMs);
    }
  });
  await fc.assert(property, { numRuns: 40 });
  await store.sync();
  expect(told).toBe(asked);
});

test('many writes share one wait for the disk', async () => {
  const { store, commits, write } = await open();
  const before = { ...commits };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: 200 }, () => write()));
  await store.sync();
  const most = 2 + (performance.now() - startedAt) / 20;
  expect(commits.changing - before.changing).toBeGreaterThanOrEqual(200);
  expect(commits.waits - before.waits).toBeLessThanOrEqual(most);
});
