import { renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createStopRequest } from '../../../src/worker/invocation/invocation.ts';
import { createAdaptiveLimit, createFileWatch, createPace } from '../../../src/worker/loop/queue-limits.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const WINDOW_MS = 10_000;

/** A limit with a clock of its own; a window is some jobs of one duration. */
function begin(least: number, most: number) {
  let at = 0;
  const limit = createAdaptiveLimit({ least, most, now: () => at });
  return {
    pass: (durationMs: number, jobs = 3): number => {
      for (let count = 0; count < jobs; count += 1) limit.note(durationMs);
      at += WINDOW_MS;
      return limit.limit();
    },
    wait: (ms: number): number => {
      at += ms;
      return limit.limit();
    },
  };
}

test('one more after the other, as long as jobs take no longer, up to the most', () => {
  const { pass } = begin(1, 4);
  expect([100, 100, 109, 100, 50, 50].map((ms) => pass(ms))).toEqual([2, 3, 4, 4, 4, 4]);
});

test('a fifth fewer when jobs take longer, down to the least', () => {
  const { pass } = begin(2, 100);
  for (let count = 0; count < 8; count += 1) pass(100);
  expect([pass(111), pass(123), pass(136)]).toEqual([8, 6, 5]);
  expect([pass(300), pass(900), pass(2700), pass(9000)]).toEqual([4, 3, 2, 2]);
});

test('nothing changes within a window, nor over one in which no job ended', () => {
  const { pass, wait } = begin(1, 9);
  expect(pass(100)).toBe(2);
  expect(wait(WINDOW_MS - 1)).toBe(2);
  expect([wait(1), wait(WINDOW_MS), wait(100 * WINDOW_MS)]).toEqual([2, 2, 2]);
  // What came before an idle time is nothing to be compared with.
  expect(pass(10_000)).toBe(3);
});

test('the limit stays within its bounds, and follows what it was told', () => {
  const windows = fc.array(fc.record({ durationMs: fc.nat(1_000), jobs: fc.nat(5) }), { maxLength: 40 });
  const property = fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(20), windows, (least, more, all) => {
    const most = least + more;
    const { pass } = begin(least, most);
    let before = least;
    for (const [index, { durationMs, jobs }] of all.entries()) {
      const last = all[index - 1];
      const limit = pass(durationMs, jobs);
      expect(Number.isInteger(limit) && limit >= least && limit <= most).toBe(true);
      expect(limit).toBeLessThanOrEqual(before + 1);
      const isSlower = last !== undefined && last.jobs > 0 && jobs > 0 && durationMs > last.durationMs * 1.1;
      if (isSlower) expect(limit).toBeLessThanOrEqual(before);
      else expect(limit).toBeGreaterThanOrEqual(before);
      before = limit;
    }
  });
  fc.assert(property);
});

/** Whether it is settled by now, without waiting for it. */
const isSettled = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => true), new Promise<false>((resolve) => setImmediate(resolve, false))]);

test('without --adaptive every executor is admitted at once', async () => {
  const pace = createPace({ stop: createStopRequest() }, { isAdaptive: false, concurrency: 3 });
  for (const executor of [0, 1, 2]) expect(await pace.admit(executor)).toBe(true);
});

test('of an adaptive worker one executor begins, and the others wait', async () => {
  const stop = createStopRequest();
  const pace = createPace({ stop }, { isAdaptive: true, concurrency: 3 });
  expect(await pace.admit(0)).toBe(true);
  const second = pace.admit(1);
  expect(await isSettled(second)).toBe(false);
  stop.startNothing('SIGTERM');
  expect(await second).toBe(false);
});

test('who waits is not needed any more once the first executor has left', async () => {
  const pace = createPace({ stop: createStopRequest() }, { isAdaptive: true, concurrency: 3 });
  const [second, third] = [pace.admit(1), pace.admit(2)];
  pace.leave(1);
  expect(await isSettled(third)).toBe(false);
  pace.leave(0);
  expect(await Promise.all([second, third])).toEqual([false, false]);
});

const changes = {
  'is touched': (path) => utimesSync(path, 1, 1),
  'gets other content': (path) => writeFileSync(path, 'other'),
  'is replaced by one of its size and time': (path) => {
    writeFileSync(`${path}.new`, 'text');
    utimesSync(`${path}.new`, 1_000, 1_000);
    renameSync(`${path}.new`, path);
  },
  'is removed': (path) => rmSync(path),
} as const satisfies Record<string, (path: string) => void>;

test.each(Object.entries(changes))('a file that %s has changed', (_, change) => {
  const root = makeTemporaryRoot({ 'one.js': 'text', 'two.js': 'text' });
  const [one, two] = [join(root, 'one.js'), join(root, 'two.js')];
  utimesSync(two, 1_000, 1_000);
  const watch = createFileWatch([one, two]);
  expect(watch.findChanged()).toBeNull();
  change(two);
  expect(watch.findChanged()).toBe(two);
});

test('a file that is made has changed; one that stays away has not', () => {
  const path = join(makeTemporaryRoot(), 'restart');
  const watch = createFileWatch([path]);
  expect(watch.findChanged()).toBeNull();
  writeFileSync(path, '');
  expect(watch.findChanged()).toBe(path);
  expect(createFileWatch([]).findChanged()).toBeNull();
});
