import { expect, test } from 'vitest';
import { createLanesAtWork } from '../../../src/worker/loop/executors.ts';

/** Two lanes, a clock that stands, and how often the last of them came to rest. */
function open() {
  const seen = { nowMs: 1_000, rests: 0 };
  const onRest = () => {
    seen.rests += 1;
  };
  const lanes = createLanesAtWork(onRest, () => seen.nowMs);
  return { seen, lanes, one: {}, other: {} };
}

test('a rest begins with the worker, and again when the last lane has ended its job', () => {
  const { seen, lanes, one, other } = open();
  seen.nowMs = 1_400;
  expect(lanes.leftMs(500)).toBe(100);
  lanes.begin(one);
  lanes.begin(other);
  lanes.end(one);
  expect([lanes.leftMs(500), seen.rests]).toEqual([Number.POSITIVE_INFINITY, 0]);
  seen.nowMs = 3_000;
  lanes.end(other);
  seen.nowMs = 3_200;
  expect([lanes.leftMs(500), seen.rests]).toEqual([300, 1]);
});

test('one job after the other is one stretch of work; a lane without a job ends none', () => {
  const { seen, lanes, one, other } = open();
  lanes.begin(one);
  lanes.begin(one);
  lanes.end(other);
  expect(seen.rests).toBe(0);
  lanes.end(one);
  lanes.end(one);
  expect(seen.rests).toBe(1);
});
