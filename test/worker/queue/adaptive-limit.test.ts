import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createAdaptiveLimit } from '../../../src/worker/loop/queue-limits.ts';

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
  const windows = fc.array(fc.record({ durationMs: fc.nat(1_000), jobs: fc.nat(5) }), {
    maxLength: 40,
  });
  const property = fc.property(
    fc.integer({ min: 1, max: 5 }),
    fc.nat(20),
    windows,
    (least, more, all) => {
      const most = least + more;
      const { pass } = begin(least, most);
      let before = least;
      for (const [index, { durationMs, jobs }] of all.entries()) {
        const last = all[index - 1];
        const limit = pass(durationMs, jobs);
        expect(Number.isInteger(limit) && limit >= least && limit <= most).toBe(true);
        expect(limit).toBeLessThanOrEqual(before + 1);
        const isSlower =
          last !== undefined && last.jobs > 0 && jobs > 0 && durationMs > last.durationMs * 1.1;
        if (isSlower) expect(limit).toBeLessThanOrEqual(before);
        else expect(limit).toBeGreaterThanOrEqual(before);
        before = limit;
      }
    },
  );
  fc.assert(property);
});
