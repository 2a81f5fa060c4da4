import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { clockOffsetMs, commandClock, now } from '../../../src/system/base/clock.ts';
import { startHeartbeat } from '../../../src/worker/invocation/heartbeat.ts';
import { createStopRequest, createWorkerEvents } from '../../../src/worker/invocation/invocation.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LEASE_MS = 60_000;

/** A worker whose store answers as told. */
function begin(answer: () => Promise<boolean>) {
  const renewals: number[] = [];
  const heartbeat = async (_: number, until: number) => {
    renewals.push(until - Date.now());
    return await answer();
  };
  const store = { workers: { heartbeat } } as unknown as Store;
  const stop = createStopRequest();
  const events = createWorkerEvents();
  const told: string[] = [];
  events.on('problem', (sentence) => void told.push(sentence));
  const beating = startHeartbeat({ stop, events }, store);
  onTestFinished(() => beating.stop());
  expect(beating.leaseFrom(1_000)).toBe(1_000 + LEASE_MS);
  beating.begin(7);
  return { beating, stop, told, renewals, store };
}

test('a worker says every ten seconds or so that it lives', async () => {
  const { beating, stop, renewals } = begin(async () => true);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(renewals.length).toBeGreaterThanOrEqual(9);
  expect(renewals.length).toBeLessThanOrEqual(15);
  expect(new Set(renewals)).toEqual(new Set([LEASE_MS]));
  expect(beating.mayStart()).toBe(true);
  expect(stop.reason).toBeNull();
});

test('who was given up starts nothing more, and says so once', async () => {
  const { beating, stop, told, renewals } = begin(async () => false);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(renewals).toHaveLength(1);
  expect([beating.mayStart(), beating.mayStart()]).toEqual([false, false]);
  expect(stop.reason).toMatch(/ gave no sign of life in time$/);
  expect(told).toEqual([expect.stringMatching(/^another machine has taken over the runs of .*/)]);
});

test('a database that is away is asked again, until others may take it for dead', async () => {
  let isAway = true;
  const { beating, stop, told, renewals } = begin(async () => {
    if (isAway) throw new Error('connection refused');
    return true;
  });
  await vi.advanceTimersByTimeAsync(40_000);
  expect(beating.mayStart()).toBe(true);
  isAway = false;
  await vi.advanceTimersByTimeAsync(40_000);
  expect(beating.mayStart()).toBe(true);
  isAway = true;
  await vi.advanceTimersByTimeAsync(70_000);
  expect(beating.mayStart()).toBe(false);
  expect(stop.reason).not.toBeNull();
  expect(told).toEqual([expect.stringMatching(/could not report to the other machines in time/)]);
  expect(renewals.length).toBeGreaterThan(8);
});

test('a process that stood still for longer than its lease starts nothing when it wakes up', () => {
  const { beating } = begin(async () => true);
  // No timer has had its turn yet.
  vi.setSystemTime(Date.now() + LEASE_MS);
  expect(beating.mayStart()).toBe(false);
});

test('that a worker has ended as it was to is no loss', async () => {
  let isAlive = true;
  const { beating, stop, renewals, store } = begin(async () => isAlive);
  await vi.advanceTimersByTimeAsync(15_000);
  const before = renewals.length;
  isAlive = false;
  beating.end(7);
  await vi.advanceTimersByTimeAsync(300_000);
  expect(renewals).toHaveLength(before);
  expect([beating.mayStart(), stop.reason]).toEqual([true, null]);
  expect(await beating.confirm(store, 7)).toBe(false);
  expect(stop.reason).not.toBeNull();
});

test('a machine whose clock is set back while it works goes on by the database’s', async () => {
  const databaseAheadMs = Date.now() - performance.now();
  const followClock = async () => commandClock.follow(databaseAheadMs + performance.now() - Date.now());
  const { renewals, store, beating } = begin(async () => true);
  Object.assign(store, { fleet: { followClock } });
  await vi.advanceTimersByTimeAsync(30_000);
  vi.setSystemTime(Date.now() - 300_000);
  renewals.length = 0;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(clockOffsetMs()).toBe(300_000);
  expect(renewals.length).toBeGreaterThan(1);
  expect(new Set(renewals)).toEqual(new Set([LEASE_MS + 300_000]));
  expect(now()).toBe(Date.now() + 300_000);
  expect(beating.mayStart()).toBe(true);
  commandClock.follow(0);
});
