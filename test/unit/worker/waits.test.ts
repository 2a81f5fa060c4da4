import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import type { QueueSelection } from '../../../src/queue/claim/claim.ts';
import { type DueFacts, decideDue } from '../../../src/schedule/due.ts';
import { defaultSettings, type Limits } from '../../../src/settings/settings.ts';
import { createActiveExecutors, createWakeSignal } from '../../../src/worker/loop/executors.ts';
import { type MachineLoad, waitForRoom } from '../../../src/worker/loop/limits.ts';
import { createSelector } from '../../../src/worker/loop/queue-recorder.ts';
import { openTestQueue, START as QUEUE_START } from '../../support/queue.ts';
import { makeScript } from '../../support/run.ts';
import { openStoreOf } from '../../support/store.ts';

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

test('each ring is heard once, by who asked before it', () => {
  const noMore = new AbortController();
  const wake = createWakeSignal(noMore.signal);
  const [one, same] = [wake.next(), wake.next()];
  wake.ring();
  const later = wake.next();
  expect([one.aborted, same.aborted, later.aborted]).toEqual([true, true, false]);
  noMore.abort();
  expect(later.aborted).toBe(true);
});

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

const HOUR = 3_600_000;
const START = Date.UTC(2026, 10, 1);

/** A daily tier's facts, asked a minute after midnight; its last pass was that of the day before. */
const facts = (changes: Partial<DueFacts> = {}): DueFacts => ({
  start: START,
  at: START + 60_000,
  last: { state: 'finished', startedAt: START - 24 * HOUR },
  seenAt: START - 24 * HOUR,
  crashes: 0,
  catchUp: 'once',
  ...changes,
});

const last = (state: 'finished' | 'running' | 'crashed', startedAt: number) => ({ last: { state, startedAt } });

test.each<[string, Partial<DueFacts>, string]>([
  ['never called, and seen in the period before', { last: null, seenAt: START - 1 }, 'due'],
  ['never called, and first seen in this period', { last: null, seenAt: START }, 'not-due'],
  ['a new period has begun', {}, 'due'],
  ['its pass of this period has begun in its first moment', last('finished', START), 'not-due'],
  ['it ran a moment before the new period', last('finished', START - 1), 'due'],
  ['many periods were missed', last('finished', START - 900 * HOUR), 'due'],
  ['its pass is under way', last('running', START + 1_000), 'not-due'],
  ['its pass of an earlier period is under way', last('running', START - HOUR), 'not-due'],
  ['its pass of this period died', { ...last('crashed', START + 1_000), crashes: 1 }, 'due'],
  ['it died twice', { ...last('crashed', START + 1_000), crashes: 2 }, 'not-due'],
  ['its pass of an earlier period died', last('crashed', START - HOUR), 'due'],
  ['the clock was set back by a day', last('finished', START + 25 * HOUR), 'due'],
  ['the clock was corrected by a second', last('finished', START + 61_000), 'not-due'],
])('%s: %j is %s', (_, changes, verdict) => {
  expect(decideDue(facts(changes))).toBe(verdict);
});

test.each<[string, Partial<DueFacts>, string]>([
  ['in time', { at: START + HOUR }, 'due'],
  ['more than an hour late', { at: START + HOUR + 1 }, 'missed'],
  ['never called, and late', { at: START + 9 * HOUR, last: null }, 'missed'],
  ['late, but done', { at: START + 9 * HOUR, ...last('finished', START + 1) }, 'not-due'],
])('with catchUp skip, %s it is %3$s', (_, changes, verdict) => {
  expect(decideDue(facts({ catchUp: 'skip', ...changes }))).toBe(verdict);
});

test('a period has at most one finished pass, and at most two that die', () => {
  const asked = fc.array(fc.tuple(fc.integer({ min: 0, max: 23 * HOUR }), fc.boolean()));
  fc.assert(
    fc.property(asked, (calls) => {
      const passes: { state: 'finished' | 'crashed'; startedAt: number }[] = [];
      for (const [offset, dies] of calls.toSorted(([one], [other]) => one - other)) {
        const at = START + offset;
        const crashes = passes.filter(({ state }) => state === 'crashed').length;
        const verdict = decideDue(facts({ at, crashes, last: passes.at(-1) ?? facts().last }));
        if (verdict === 'due') passes.push({ state: dies ? 'crashed' : 'finished', startedAt: at });
      }
      const finished = passes.filter(({ state }) => state === 'finished').length;
      expect(finished).toBeLessThanOrEqual(1);
      expect(passes.length - finished).toBeLessThanOrEqual(2);
      if (calls.length >= 3) expect(passes.length).toBeGreaterThan(0);
    }),
  );
});

const names = ['mail/a', 'mail/b', 'sms/a', 'unknown'] as const;

const handlers: Handlers = {
  problem: null,
  names: () => ['mail/a', 'mail/b', 'sms/a'],
  find: (name) => (name === 'unknown' ? null : makeScript(`queue/${name}`)),
  optionsOf: () => ({}),
};

/** A worker's selector beside a queue of another connection, which pauses. */
async function openOfQueueSelection(request: { patterns?: readonly string[]; failsUnknown?: boolean } = {}) {
  const log = await openTestQueue();
  const store = await openStoreOf(log.root);
  const watch = store.watch();
  const selector = createSelector({
    handlers,
    request: { patterns: [], failsUnknown: false, ...request },
    groupLimit: 2,
    version: () => watch.look(),
  });
  return { ...log, selector, store, select: (at = QUEUE_START) => selector.select(at, store) };
}

const wantedOf = (selection: QueueSelection): string[] => names.filter(selection.isWanted);

test.each([
  [{}, ['mail/a', 'mail/b', 'sms/a']],
  [{ patterns: ['mail/*'] }, ['mail/a', 'mail/b']],
  [{ patterns: ['*/a', 'mail/b'] }, ['mail/a', 'mail/b', 'sms/a']],
  [{ failsUnknown: true }, ['mail/a', 'mail/b', 'sms/a', 'unknown']],
  [{ patterns: ['nobody'] }, []],
])('%j: %j are wanted', async (request, expected) => {
  const { select } = await openOfQueueSelection(request);
  const selection = await select();
  expect([wantedOf(selection), selection.groupLimit]).toEqual([expected, 2]);
});

test('pauses count at once, of both kinds, and so does their end', async () => {
  const { queue, select } = await openOfQueueSelection();
  const look = async (at = QUEUE_START) => {
    const selection = await select(at);
    return [wantedOf(selection), names.filter(selection.failsFast)];
  };
  await look();
  await queue.pause('mail/*', { for: '10s' });
  expect(await look()).toEqual([['sms/a'], []]);
  await queue.pause('mail/b', { fail: true });
  await queue.pause('unknown', { fail: true });
  // What waits does not fail; what is to fail does even where nobody has a handler of it.
  expect(await look()).toEqual([
    ['sms/a', 'unknown'],
    ['mail/b', 'unknown'],
  ]);
  await queue.resume('unknown');
  expect(await look(QUEUE_START + 10_000)).toEqual([['mail/a', 'mail/b', 'sms/a'], ['mail/b']]);
  await queue.pause('*');
  expect(await look()).toEqual([[], ['mail/b']]);
});

test('what is asked in a transaction is what holds in it', async () => {
  const { queue, selector, store, select } = await openOfQueueSelection();
  await select();
  await store.transaction(async (session) => {
    expect(wantedOf(await selector.select(QUEUE_START, session))).toHaveLength(3);
  });
  await queue.pause('*');
  await store.transaction(async (session) => {
    expect(wantedOf(await selector.select(QUEUE_START, session))).toEqual([]);
  });
});
