import { once } from 'node:events';
import { expect, test } from 'vitest';
import type { Handlers } from '../../../src/discovery/handlers.ts';
import { endUnmeasured, noOutput } from '../../../src/execution/result/result.ts';
import { addJobs } from '../../../src/queue/add/add.ts';
import type { NewJob } from '../../../src/queue/api.ts';
import { QueueError } from '../../../src/queue/errors.ts';
import type { Runner } from '../../../src/settings/settings.ts';
import type { Store } from '../../../src/store/store.ts';
import { createSelector, type HandlerRun, QueueRecorder } from '../../../src/worker/loop/queue-recorder.ts';
import type { EndedRun } from '../../../src/worker/loop/recorder.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openStoreOf } from '../../support/store.ts';
import { startWorker } from './worker-claims.ts';

const HOUR = 3_600_000;

const handlers = { find: () => null, names: () => [], problem: null, optionsOf: () => ({}) } as Handlers;
const queue = { leaseMs: 60_000, missedCap: 10, groupLimit: null, archive: {} };
const runner = { now: Date.now, settings: { queue }, state: { output: '' } } as unknown as Runner;

/** A queue worker with a connection of its own, and how many transactions it has begun. */
async function openTurns(root: string, patterns: readonly string[] = []) {
  const store = await openStoreOf(root);
  const workerId = await startWorker(store, Date.now());
  const counted = { transactions: 0 };
  const transaction: Store['transaction'] = (work, durability) => {
    counted.transactions += 1;
    return store.transaction(work, durability);
  };
  const selector = createSelector({
    ...{ handlers, request: { patterns, failsUnknown: true }, groupLimit: null, version: () => 0 },
  });
  const recorder = new QueueRecorder({
    ...{ store: { ...store, transaction }, workerId, runner, handlers, selector },
  });
  const add = (jobs: readonly NewJob<unknown>[]) =>
    store.transaction(async (session) => (await addJobs(session, jobs, Date.now())).map(({ id }) => id));
  /** From then on, a success of that name is no news. */
  const warmUp = async (name: string, endedThen = ended): Promise<void> => {
    await add([{ name, priority: 1_000 }]);
    const { next } = await recorder.turn([], 1);
    await recorder.turn(next.map(endedThen), 0);
  };
  return { store, recorder, counted, add, warmUp };
}

const ended = (run: HandlerRun): EndedRun<HandlerRun> => endedAt(Date.now())(run);

const endedAt =
  (at: number) =>
  (run: HandlerRun): EndedRun<HandlerRun> => {
    const succeeded = { outcome: 'succeeded', finishedAt: at, durationMs: 1, reason: null, output: noOutput } as const;
    return { run, startedAt: at, end: endUnmeasured(succeeded), isRetryable: true };
  };

const statesIn = (root: string): string[] =>
  queryLog<{ state: string }>(root, 'select state from jobs order by id').map(({ state }) => state);

test('each of 2,000 jobs is run once by 8 workers that end some and claim others in one step', async () => {
  const root = makeTemporaryRoot();
  const workers = await Promise.all(Array.from({ length: 8 }, () => openTurns(root)));
  const ids = (await workers[0]?.add(Array(2_000).fill({ name: 'a' }))) ?? [];
  const ran: number[] = [];
  await Promise.all(
    workers.map(async ({ recorder }, index) => {
      let runs: readonly EndedRun<HandlerRun>[] = [];
      for (;;) {
        const { settled, next } = await recorder.turn(runs, 5 + 3 * index);
        expect(settled.every(({ decision, runId }) => decision?.state === 'finished' && runId !== null)).toBe(true);
        if (next.length === 0) return;
        ran.push(...next.map(({ job }) => job.id));
        runs = next.map(ended);
      }
    }),
  );
  expect(ran.toSorted((one, other) => one - other)).toEqual(ids);
  expect(new Set(statesIn(root))).toEqual(new Set(['finished']));
  expect(queryLog(root, `select distinct job_id from runs where outcome = 'succeeded'`)).toHaveLength(2_000);
});

test('on PostgreSQL, plain ends and the next claim are one statement; a job comes with all that its row says', async () => {
  const root = makeTemporaryRoot();
  const { store, recorder, counted, add, warmUp } = await openTurns(root);
  await add([{ name: 'a' }]);
  const { next } = await recorder.turn([], 1);
  await add([{ name: 'a', data: { to: 'é"\\' }, lease: '7m', uniqueKey: 'k', retries: 3 }]);
  // Of an hour that nobody closes yet. This one may be closed in its last two minutes, which takes a transaction.
  const endedLater = endedAt(Date.now() + HOUR);
  await warmUp('a', endedLater);
  const before = counted.transactions;
  const { settled, next: following } = await recorder.turn(next.map(endedLater), 5);
  expect(counted.transactions - before).toBe(store.turn === undefined ? 1 : 0);
  expect(settled).toMatchObject([{ decision: { state: 'finished' }, runId: 2 }]);
  const [row] = await store.jobs.wholeById([2]);
  expect(following.map(({ job }) => job)).toEqual([{ ...row, has_unreported_children: false }]);
  expect(row).toMatchObject({ state: 'claimed', retry: '3', unique_key: 'k', data: '{"to":"é\\"\\\\"}' });
});

test('ends of an hour that may be closed at this moment are written in a transaction', async () => {
  const { recorder, counted, add, warmUp } = await openTurns(makeTemporaryRoot());
  await add(Array(2).fill({ name: 'a' }));
  const { next } = await recorder.turn([], 1);
  const endedBefore = endedAt(Date.now() - HOUR);
  await warmUp('a', endedBefore);
  const before = counted.transactions;
  const { settled, next: following } = await recorder.turn(next.map(endedBefore), 5);
  expect(counted.transactions - before).toBe(1);
  expect(settled).toMatchObject([{ decision: { state: 'finished' } }]);
  expect(following).toHaveLength(1);
});

test('what has become of a job since it was claimed counts when its end is told', async () => {
  const root = makeTemporaryRoot();
  const { store, recorder, add, warmUp } = await openTurns(root);
  await add(Array(3).fill({ name: 'a' }));
  const { next } = await recorder.turn([], 3);
  await warmUp('a');
  const [taken, parent, plain] = next as [HandlerRun, HandlerRun, HandlerRun];
  await store.transaction(({ claims }) => claims.release([taken.claim], Date.now()));
  await add([{ name: 'child', parent: parent.job.id }]);
  const { settled, next: following } = await recorder.turn(next.map(ended), 5);
  expect(settled.map(({ decision }) => decision?.state)).toEqual([undefined, 'finished', 'finished']);
  expect(following.map(({ job }) => job.id)).toContain(taken.job.id);
  const states = statesIn(root);
  expect([parent, plain].map(({ job }) => states[job.id - 1])).toEqual(['paused', 'finished']);
});

test('a child that is added as its parent ends with the next claim is waited for, or refused', async () => {
  const root = makeTemporaryRoot();
  const { recorder, add, warmUp } = await openTurns(root, ['a']);
  const other = await openTurns(root, ['child']);
  for (let round = 0; round < 12; round += 1) {
    await add(Array(2).fill({ name: 'a' }));
    const { next } = await recorder.turn([], 1);
    const [parent] = next as [HandlerRun];
    await warmUp('a');
    const adding = other.add([{ name: 'child', parent: parent.job.id }]).then(
      () => 'paused',
      (error) => (error instanceof QueueError ? 'finished' : error),
    );
    const [state, { next: following }] = await Promise.all([adding, recorder.turn([ended(parent)], 1)]);
    expect(statesIn(root)[parent.job.id - 1]).toBe(state);
    await recorder.turn(following.map(ended), 0);
    const { next: children } = await other.recorder.turn([], 1);
    await other.recorder.turn(children.map(ended), 0);
    const { next: resumed } = await recorder.turn([], 1);
    await recorder.turn(resumed.map(ended), 0);
  }
  expect(new Set(statesIn(root))).toEqual(new Set(['finished']));
});

test('what is claimed with others and not wanted is given back, as it was', async () => {
  const root = makeTemporaryRoot();
  const { recorder, add, warmUp } = await openTurns(root, ['a']);
  await add(Array(2).fill({ name: 'a' }));
  const { next } = await recorder.turn([], 1);
  await warmUp('a');
  await add([{ name: 'b', priority: 900 }]);
  const { next: following } = await recorder.turn(next.map(ended), 3);
  expect(following.map(({ job }) => job.id)).toEqual([2]);
  expect(statesIn(root)).toEqual(['finished', 'claimed', 'finished', 'queued']);
  expect(queryLog(root, 'select ready, claim_token, lease_expires_at, attempts from jobs where id = 4')).toEqual([
    { ready: 1, claim_token: null, lease_expires_at: null, attempts: 0 },
  ]);
});

test('a transaction that asks its store instead of its session is refused, and those after it have their turns', async () => {
  const store = await openStoreOf(makeTemporaryRoot());
  const refused = store.transaction(async () => await store.jobs.byId([1]));
  await expect(refused).rejects.toThrow('A transaction asked its store instead of its session');
  const within = store.transaction(async () => await store.transaction(async () => 'never'));
  await expect(within).rejects.toThrow('it would wait for its own end');
  const over = new AbortController();
  let later: Promise<unknown> = Promise.reject(new Error('was not begun'));
  later.catch(() => {});
  await store.transaction(async () => {
    later = once(over.signal, 'abort').then(() => store.jobs.byId([1]));
  });
  over.abort();
  expect(await later).toEqual([]);
});
