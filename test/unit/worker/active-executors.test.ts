import { expect, test } from 'vitest';
import { createActiveExecutors } from '../../../src/worker/loop/executors.ts';

/** Two executors, a clock that stands, and how often the last of them came to rest. */
function open() {
  const seen = { nowMs: 1_000, rests: 0 };
  const onRest = () => {
    seen.rests += 1;
  };
  const active = createActiveExecutors(onRest, () => seen.nowMs);
  return { seen, active, one: {}, other: {} };
}

test('a rest begins with the worker, and again when the last executor has ended its job', () => {
  const { seen, active, one, other } = open();
  seen.nowMs = 1_400;
  expect(active.leftMs(500)).toBe(100);
  active.begin(one);
  active.begin(other);
  active.end(one);
  expect([active.leftMs(500), seen.rests]).toEqual([Number.POSITIVE_INFINITY, 0]);
  seen.nowMs = 3_000;
  active.end(other);
  seen.nowMs = 3_200;
  expect([active.leftMs(500), seen.rests]).toEqual([300, 1]);
});

test('one job after the other is one stretch of work; an executor without a job ends none', () => {
  const { seen, active, one, other } = open();
  active.begin(one);
  active.begin(one);
  active.end(other);
  expect(seen.rests).toBe(0);
  active.end(one);
  active.end(one);
  expect(seen.rests).toBe(1);
});
