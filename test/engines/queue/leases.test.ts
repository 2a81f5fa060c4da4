import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import { beatMs, endExpiredLeases } from '../../../src/queue/claim/leases.ts';
import { LEASE_GRACE_MS, policyOf } from '../../../src/queue/settle/retry-policy.ts';
import type { ScriptOptions } from '../../../src/settings/settings.ts';
import type { Store } from '../../../src/store/store.ts';
import { holdLog } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { changeLog, queryLog, testOfSqlite } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { LEASE_MS, openWorker } from './worker-claims.ts';

const settings = { leaseMs: LEASE_MS, missedCap: 10 };
const noPolicies = async () => () => policyOf();
const endExpired = (store: Store, now: () => number) => endExpiredLeases(store, now, settings, noPolicies);

interface Taking {
  readonly options?: JobOptions;
  /** What the handler says of itself. */
  readonly handler?: ScriptOptions;
  readonly at?: number;
  /** False: it has not begun yet. */
  readonly begins?: boolean;
}

/** A job that a worker of the runner has taken. */
async function takeAsWorker({ options = {}, handler = {}, at = START, begins = true }: Taking = {}) {
  const log = await openTestQueue();
  const { clock, queue, store } = log;
  clock.at = at;
  const worker = await openWorker(log, { options: handler });
  const id = await queue.add('a', {}, options);
  const job = await worker.claimOne();
  if (begins) await worker.begin(job);
  const look = (now: number) =>
    endExpiredLeases(
      store,
      () => now,
      settings,
      async () => () => policyOf(handler),
    );
  return { ...log, id, worker, look, settle: () => worker.settle(job) };
}

test('a worker’s claim is given one more beat, and then the job is taken back', async () => {
  const { id, look, row, runs, events, root, settle, worker, queue, dumpWithoutOutput } = await takeAsWorker();
  const overAt = START + LEASE_MS + 1;
  expect([await look(overAt - 1), row(id).lease_expires_at]).toEqual([0, START + LEASE_MS]);
  expect(await look(overAt)).toBe(0);
  const moreMs = 2 * beatMs(LEASE_MS);
  expect(row(id)).toMatchObject({ state: 'running', lease_expires_at: overAt + moreMs, lease_extended: 1 });
  expect(await look(overAt + moreMs)).toBe(0);
  expect(await look(overAt + moreMs + 1)).toBe(1);
  const reason = `its lease expired at ${new Date(overAt + moreMs).toISOString()} without being renewed`;
  expect(row(id)).toMatchObject({
    ...{ state: 'retrying', attempts: 1, reason, claim_token: null, lease_extended: 0 },
    run_at: overAt + moreMs + 1 + 60_000,
  });
  expect(await queue.get(id)).toMatchObject({ counters: { timeouts: 1, crashes: 0 } });
  expect(runs(id)).toMatchObject([{ outcome: 'crashed', reason, duration_us: null }]);
  expect(events(id)).toEqual(['job-queued', 'run-started', 'job-lease-expired', 'job-retrying']);
  const told = `select worker_id, detail from activity where event = 'job-lease-expired'`;
  expect(queryLog(root, told)).toEqual([{ worker_id: worker.workerId, detail: reason }]);
  const before = dumpWithoutOutput();
  expect((await settle()).decision).toBeNull();
  expect(dumpWithoutOutput()).toBe(before);
  checkInvariants(root, { isSettled: false });
});

test('what had not begun when its lease ran out is given back untouched', async () => {
  const { id, look, row, runs, events, root, settle, queue, clock } = await takeAsWorker({ begins: false });
  expect(await look(START + LEASE_MS + 1)).toBe(0);
  expect(row(id)).toMatchObject({ state: 'claimed', lease_extended: 1 });
  clock.at = START + 2 * LEASE_MS;
  expect(await look(clock.at)).toBe(1);
  expect(row(id)).toMatchObject({
    ...{ state: 'queued', ready: 1, attempts: 0, claim_token: null, lease_expires_at: null },
    ...{ lease_extended: 0, reason: null },
  });
  expect([runs(id), events(id)]).toEqual([[], ['job-queued', 'job-lease-expired']]);
  expect(await queue.claim()).toMatchObject({ id, attempt: 1, counters: { timeouts: 0 } });
  expect((await settle()).decision).toBeNull();
  checkInvariants(root, { isSettled: false });
});

test('a late renewal keeps the claim, and nothing is left of its having been late', async () => {
  const { id, look, row, worker, root, settle, clock } = await takeAsWorker({ options: { lease: '10s' } });
  await look(START + 11_000);
  expect(row(id).lease_extended).toBe(1);
  clock.at = START + 12_000;
  await worker.renew();
  expect(row(id)).toMatchObject({ lease_expires_at: START + 22_000, lease_extended: 0 });
  // The next time it is late it is given time anew.
  expect(await look(START + 23_000)).toBe(0);
  expect(row(id).state).toBe('running');
  expect((await settle()).decision).toEqual({ state: 'finished' });
  expect(row(id)).toMatchObject({ state: 'finished', reason: null, lease_extended: 0 });
  checkInvariants(root, { isSettled: false });
});

test('a worker renews its own claims, each by its own lease, and no other’s', async () => {
  const log = await takeAsWorker({ options: { lease: '10s' } });
  const { id, root, row, take, queue, worker, clock, store } = log;
  // The number of the one is the beginning of the other's.
  let neighbour = await openWorker(log);
  while (!String(neighbour.workerId).startsWith(String(worker.workerId))) neighbour = await openWorker(log);
  const neighbours = await queue.add('d');
  await neighbour.claimOne();
  const other = await take('b', { lease: '10s' });
  const ended = await take('c');
  await queue.finish(ended);
  clock.at = START + 5_000;
  const shortest = (workerId: number) => store.transaction(({ claims }) => claims.renew(workerId, clock.at, LEASE_MS));
  expect(await shortest(worker.workerId)).toBe(10_000);
  expect(row(id).lease_expires_at).toBe(START + 15_000);
  expect(row(other.id).lease_expires_at).toBe(START + 10_000);
  expect(row(neighbours).lease_expires_at).toBe(START + LEASE_MS);
  expect(row(ended.id).lease_expires_at).toBeNull();
  changeLog(root, 'update jobs set lease_ms = null where id = ?', id);
  expect(await shortest(worker.workerId)).toBe(LEASE_MS);
  expect(row(id).lease_expires_at).toBe(START + 5_000 + LEASE_MS);
  expect(await shortest(99)).toBeNull();
});

test('a worker renews often enough for each lease, and is given time for one more', () => {
  expect([1_000, 30_000, 50_000, 60_000, 600_000].map(beatMs)).toEqual([100, 3_000, 5_000, 5_000, 5_000]);
});

test.each([
  [{ onCrash: 'skip' }, {}, 'cancelled', 'job-cancelled'],
  [{ onCrash: 'fail' }, {}, 'failed', 'job-failed'],
  [{}, { retries: 5 }, 'retrying', 'job-retrying'],
] as const)('what follows is what follows a crash: %j', async (handler, options, state, event) => {
  const { id, look, row, events, root } = await takeAsWorker({ options, handler });
  await look(START + LEASE_MS + 1);
  await look(START + 2 * LEASE_MS);
  expect(row(id).state).toBe(state);
  expect(events(id).at(-1)).toBe(event);
  checkInvariants(root, { isSettled: false });
});

test('who is no worker has until a little after the lease; then the next one gets it at once', async () => {
  const { queue, store, take, row, clock, root } = await openTestQueue();
  const job = await take('a', { lease: '10s' });
  const overAt = START + 10_000 + LEASE_GRACE_MS;
  expect(await store.claims.nextWake(START, LEASE_GRACE_MS)).toBe(overAt + 1);
  expect(await endExpired(store, () => overAt)).toBe(0);
  expect(await endExpired(store, () => overAt + 1)).toBe(1);
  expect(row(job.id)).toMatchObject({ state: 'retrying', run_at: overAt + 1, ready: 1 });
  expect(await queue.get(job.id)).toMatchObject({ counters: { timeouts: 1 } });
  clock.at = overAt + 1;
  expect((await queue.claim())?.id).toBe(job.id);
  await expect(queue.finish(job)).rejects.toMatchObject({ code: 'stale-claim' });
  checkInvariants(root, { isSettled: false });
});

test('what the settings or its handler say of a crash counts for who is no worker, too', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': JSON.stringify({ scripts: { 'queue/mail/*': { onCrash: 'fail' } } }),
    'jobs/queue/once.sh': executable('#!/bin/sh\n# @on-crash skip\n'),
  });
  const clock = { at: START };
  const queue = await openQueue({ root, now: () => clock.at });
  onTestFinished(() => queue.close());
  const names = ['mail/a', 'mail/a?user=7', 'once', 'else'];
  const ids = await queue.addMany(names.map((name) => ({ name })));
  await queue.claimMany('*', 4);
  clock.at += HOUR_MS;
  expect((await queue.claim())?.id).toBe(ids[3]);
  const states = await Promise.all(ids.map(async (id) => (await queue.get(id))?.state));
  expect(states).toEqual(['failed', 'failed', 'cancelled', 'running']);
  checkInvariants(root, { isSettled: false });
});

// Nobody holds a whole server.
testOfSqlite('a log that is held longer than a lease loses nobody’s claim', async () => {
  const { id, store, root, row, queue, clock, worker, settle } = await takeAsWorker({
    options: { lease: '1s' },
    at: Date.now(),
  });
  const holder = await holdLog(root, 3_500);
  // Who looks waits for the lock like everybody, and may be the first who gets it.
  expect(await endExpired(store, Date.now)).toBe(0);
  await holder.ended;
  expect(await endExpired(store, Date.now)).toBe(0);
  clock.at = Date.now();
  expect(await queue.claim()).toBeNull();
  expect(row(id)).toMatchObject({ state: 'running', lease_extended: 1 });
  await worker.renew();
  expect(row(id)).toMatchObject({ state: 'running', lease_extended: 0 });
  expect((await settle()).decision).toEqual({ state: 'finished' });
});

test('who is no worker and asks in time loses no claim, however long the log is held', async () => {
  const { queue, take, store, root, row, clock } = await openTestQueue();
  clock.at = Date.now();
  const job = await take('a', { lease: '1s' });
  // This is the last moment; both wait for the log then, and either may be the first who gets it.
  changeLog(root, 'update jobs set lease_expires_at = ? where id = ?', clock.at - LEASE_GRACE_MS, job.id);
  await holdLog(root, LEASE_GRACE_MS);
  const touched = queue.touch(job, { lease: '1m' });
  clock.at += LEASE_GRACE_MS;
  expect(await endExpired(store, Date.now)).toBe(0);
  await touched;
  expect(await endExpired(store, Date.now)).toBe(0);
  expect(row(job.id)).toMatchObject({ state: 'running' });
});
