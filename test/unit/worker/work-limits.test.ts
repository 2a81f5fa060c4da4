import { expect, test } from 'vitest';
import { createStopRequest } from '../../../src/worker/invocation/invocation.ts';
import { createWorkLimits, type WorkRequest } from '../../../src/worker/loop/queue-limits.ts';

const noLimits: WorkRequest = {
  patterns: [],
  concurrency: 1,
  isAdaptive: false,
  forMs: null,
  waitMs: null,
  maxJobs: null,
  maxMemoryBytes: null,
  maxLoad: null,
  failsUnknown: false,
  watchedFiles: [],
};

function begin(request: Partial<WorkRequest>, { beganMsAgo = 0 } = {}) {
  const stop = createStopRequest();
  const world = { changed: null as string | null, memoryBytes: 100 };
  const limits = createWorkLimits({
    request: { ...noLimits, ...request },
    stop,
    files: { findChanged: () => world.changed },
    startedAt: performance.now() - beganMsAgo,
    readMemoryBytes: () => world.memoryBytes,
  });
  return { ...limits, stop, world };
}

test('without limits there is no end', () => {
  const { reserve, settle, leftMs, look, stop } = begin({});
  for (let count = 0; count < 1_000; count += 1) {
    expect(reserve(16)).toBe(16);
    settle(16, 16);
  }
  look();
  expect([leftMs(), stop.reason]).toEqual([Number.POSITIVE_INFINITY, null]);
});

test('after its time no more is taken', () => {
  const before = begin({ forMs: 60_000 }, { beganMsAgo: 50_000 });
  expect(before.reserve(1)).toBe(1);
  expect(before.leftMs()).toBeLessThanOrEqual(10_000);
  const after = begin({ forMs: 60_000 }, { beganMsAgo: 60_001 });
  expect([after.reserve(1), after.stop.reason]).toEqual([0, 'its time of 1m is over']);
});

test.each([
  [1, 'it has run 1 job'],
  [3, 'it has run 3 jobs'],
])('%i jobs at most', (maxJobs, reason) => {
  const { reserve, settle, stop } = begin({ maxJobs });
  for (let count = 0; count < maxJobs; count += 1) {
    expect([reserve(1), stop.reason]).toEqual([1, null]);
    settle(1, 1);
  }
  expect([reserve(1), stop.reason]).toEqual([0, reason]);
});

test('of several that are asked for ahead, only those are that may be taken', () => {
  const { reserve, settle, stop } = begin({ maxJobs: 10 });
  expect(reserve(8)).toBe(8);
  // Another executor, meanwhile.
  expect(reserve(8)).toBe(2);
  settle(8, 5);
  expect(reserve(8)).toBe(3);
  settle(2, 2);
  expect(stop.reason).toBeNull();
  settle(3, 3);
  expect([reserve(8), stop.reason]).toEqual([0, 'it has run 10 jobs']);
});

test('an executor that only asks keeps another one from the last job, but ends nothing', () => {
  const { reserve, settle, stop } = begin({ maxJobs: 1 });
  expect(reserve(1)).toBe(1);
  expect([reserve(1), stop.reason]).toEqual([0, null]);
  settle(1, 0);
  expect([reserve(1), stop.reason]).toEqual([1, null]);
  settle(1, 1);
  expect(stop.reason).toBe('it has run 1 job');
});

test('what has stopped takes nothing', () => {
  const { reserve, stop } = begin({});
  stop.startNothing('SIGTERM');
  expect(reserve(1)).toBe(0);
});

test('a changed file and too much memory are found out when it is looked', () => {
  const deployed = begin({});
  deployed.world.changed = '/site/.runner/restart';
  expect(deployed.reserve(1)).toBe(1);
  deployed.look();
  expect(deployed.stop.reason).toBe('/site/.runner/restart has changed');
  const large = begin({ maxMemoryBytes: 100 });
  large.look();
  expect(large.stop.reason).toBeNull();
  large.world.memoryBytes = 101;
  large.look();
  expect(large.stop.reason).toBe('the worker and its children use more memory than allowed (--max-memory)');
});
