import { expect, test } from 'vitest';
import { createStopRequest } from '../../../src/worker/invocation/stop.ts';
import { createTakeRules, type WorkRequest } from '../../../src/worker/loop/queue-limits.ts';

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
  const rules = createTakeRules({
    request: { ...noLimits, ...request },
    stop,
    files: { findChanged: () => world.changed },
    startedAt: performance.now() - beganMsAgo,
    readMemoryBytes: () => world.memoryBytes,
  });
  return { ...rules, stop, world };
}

test('without limits there is no end', () => {
  const { mayTake, settle, leftMs, look, stop } = begin({});
  for (let count = 0; count < 1_000; count += 1) {
    expect(mayTake()).toBe(true);
    settle(true);
  }
  look();
  expect([leftMs(), stop.reason]).toEqual([Number.POSITIVE_INFINITY, null]);
});

test('after its time no more is taken', () => {
  const before = begin({ forMs: 60_000 }, { beganMsAgo: 50_000 });
  expect(before.mayTake()).toBe(true);
  expect(before.leftMs()).toBeLessThanOrEqual(10_000);
  const after = begin({ forMs: 60_000 }, { beganMsAgo: 60_001 });
  expect([after.mayTake(), after.stop.reason]).toEqual([false, 'its time of 1m is over']);
});

test.each([
  [1, 'it has run 1 job'],
  [3, 'it has run 3 jobs'],
])('%i jobs at most', (maxJobs, reason) => {
  const { mayTake, settle, stop } = begin({ maxJobs });
  for (let count = 0; count < maxJobs; count += 1) {
    expect([mayTake(), stop.reason]).toEqual([true, null]);
    settle(true);
  }
  expect([mayTake(), stop.reason]).toEqual([false, reason]);
});

test('a lane that only asks keeps another one from the last job, but ends nothing', () => {
  const { mayTake, settle, stop } = begin({ maxJobs: 1 });
  expect(mayTake()).toBe(true);
  expect([mayTake(), stop.reason]).toEqual([false, null]);
  settle(false);
  expect([mayTake(), stop.reason]).toEqual([true, null]);
  settle(true);
  expect(stop.reason).toBe('it has run 1 job');
});

test('what has stopped takes nothing', () => {
  const { mayTake, stop } = begin({});
  stop.startNothing('SIGTERM');
  expect(mayTake()).toBe(false);
});

test('a changed file and too much memory are found out when it is looked', () => {
  const deployed = begin({});
  deployed.world.changed = '/site/.runner/restart';
  expect(deployed.mayTake()).toBe(true);
  deployed.look();
  expect(deployed.stop.reason).toBe('/site/.runner/restart has changed');
  const large = begin({ maxMemoryBytes: 100 });
  large.look();
  expect(large.stop.reason).toBeNull();
  large.world.memoryBytes = 101;
  large.look();
  expect(large.stop.reason).toBe(
    'the worker and its children use more memory than allowed (--max-memory)',
  );
});
