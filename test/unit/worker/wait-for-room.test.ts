import { describe, expect, test } from 'vitest';
import { defaultSettings, type Limits } from '../../../src/settings/settings.ts';
import { type MachineLoad, waitForRoom } from '../../../src/worker/loop/limits.ts';

const MB = 1024 * 1024;
const never = new AbortController().signal;
const limit = (limits: Partial<Limits>): Limits => ({ ...defaultSettings.limits, maxWaitMs: 0, ...limits });
const machine: MachineLoad = { load: 0, freeMemoryBytes: 500 * MB, processes: 3 };

describe('this machine', () => {
  test.for<readonly [Partial<Limits>, RegExp]>([
    [{ maxLoad: -1 }, /^the load average is \d+\.\d \(maxLoad -1\)$/],
    [{ minFreeMemoryBytes: 1024 ** 5 }, /^only \d+ [GM]B of memory is free \(minFreeMemory 1 PB\)$/],
    [{ maxProcesses: 0 }, /^[1-9]\d* processes are running \(maxProcesses 0\)$/],
  ])('has no room for %j', async ([limits, reason]) => {
    expect(await waitForRoom(limit(limits), never)).toMatch(reason);
  });

  test('has room for a script, at once', async () => {
    const limits = limit({ maxLoad: 1e6, minFreeMemoryBytes: 1, maxProcesses: 1e6 });
    const started = performance.now();
    expect(await waitForRoom({ ...limits, maxWaitMs: 60_000 }, never)).toBeNull();
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

test('without limits nobody looks', async () => {
  const read = () => {
    throw new Error('looked');
  };
  expect(await waitForRoom(limit({}), never, { read })).toBeNull();
});

/** Each look finds the next of these. */
function readInTurn(loads: readonly number[]) {
  const rest = [...loads];
  return () => ({ ...machine, load: (rest.length > 1 ? rest.shift() : rest[0]) as number });
}

test('waits for room', async () => {
  const read = readInTurn([7.2, 7, 5, 3]);
  const limits = limit({ maxLoad: 4, maxWaitMs: 60_000 });
  expect(await waitForRoom(limits, never, { read, pollMs: 5 })).toBeNull();
});

test('gives up after the longest wait, with the last reason', async () => {
  const read = readInTurn([9, 8, 7.25]);
  const limits = limit({ maxLoad: 4, maxWaitMs: 200 });
  const started = performance.now();
  const reason = await waitForRoom(limits, never, { read, pollMs: 5 });
  expect(reason).toBe('the load average is 7.3 (maxLoad 4)');
  expect(performance.now() - started).toBeGreaterThanOrEqual(199);
});

test('a stop ends the wait', async () => {
  const stop = new AbortController();
  const limits = limit({ maxLoad: 4, maxWaitMs: 600_000 });
  const waiting = waitForRoom(limits, stop.signal, { read: readInTurn([9]), pollMs: 600_000 });
  stop.abort();
  expect(await waiting).toBeNull();
});

test('what is not known speaks against nothing, and is noted once', async () => {
  const unknown: MachineLoad = { load: null, freeMemoryBytes: null, processes: null };
  const notes: string[] = [];
  const limits = limit({ maxLoad: 0, minFreeMemoryBytes: 1024 ** 5 });
  const waiting = { read: () => unknown, note: (sentence: string) => notes.push(sentence) };
  expect(await waitForRoom(limits, never, waiting)).toBeNull();
  expect(await waitForRoom(limits, never, waiting)).toBeNull();
  expect(notes).toEqual(['maxLoad and minFreeMemory cannot be watched here: there is no /proc']);
});
