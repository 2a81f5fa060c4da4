import { expect, test } from 'vitest';
import { keepOpen } from '../../../src/dashboard/keep-open.ts';

/** What is opened is a number, the next one each time; `told` has what happens to each. */
function setUp() {
  const state = { identity: 'a', fails: false, isGood: true, opened: 0 };
  const told: string[] = [];
  const kept = keepOpen({
    identity: () => state.identity,
    open: async () => {
      if (state.fails) throw new Error('not now');
      return ++state.opened;
    },
    isGood: () => state.isGood,
    retire: (number) => void told.push(`retired ${number}`),
    close: async (number) => {
      told.push(`closed ${number}`);
      if (number === 13) throw new Error('it does not close');
    },
  });
  return { state, told, kept, which: () => kept.use(async (number) => number) };
}

test('it is opened once for all, and closed at the end', async () => {
  const { told, kept, which } = setUp();
  expect(await Promise.all([which(), which()])).toEqual([1, 1]);
  expect(await which()).toBe(1);
  await kept.close();
  expect(told).toEqual(['retired 1', 'closed 1']);
});

test('another one in its place is opened, and the one before closed once nobody uses it', async () => {
  const { state, told, kept, which } = setUp();
  const gate = Promise.withResolvers<void>();
  const first = kept.use(async (number) => {
    await gate.promise;
    return number;
  });
  state.identity = 'b';
  expect(await which()).toBe(2);
  expect(told).toEqual(['retired 1']);
  gate.resolve();
  expect(await first).toBe(1);
  await kept.close();
  expect(told.toSorted()).toEqual(['closed 1', 'closed 2', 'retired 1', 'retired 2']);
});

test('one that cannot be opened is tried again, and stops nobody at the end', async () => {
  const { state, told, kept, which } = setUp();
  state.fails = true;
  await expect(which()).rejects.toThrow('not now');
  state.fails = false;
  expect(await which()).toBe(1);
  state.fails = true;
  state.identity = 'b';
  await expect(which()).rejects.toThrow('not now');
  await kept.close();
  expect(told).toEqual(['retired 1', 'closed 1']);
});

test('one that is not as it should be serves whoever asked, and nobody after', async () => {
  const { state, told, which } = setUp();
  state.isGood = false;
  expect(await which()).toBe(1);
  state.isGood = true;
  expect(await which()).toBe(2);
  await expect.poll(() => told).toEqual(['retired 1', 'closed 1']);
});

test('what cannot be closed keeps nobody from ending', async () => {
  const { state, told, kept, which } = setUp();
  state.opened = 12;
  expect(await which()).toBe(13);
  await kept.close();
  expect(told).toEqual(['retired 13', 'closed 13']);
});
