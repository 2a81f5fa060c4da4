import { expect, test } from 'vitest';
import type { JobOptions } from '../../src/queue/api.ts';
import { claimJobs } from '../../src/queue/claim/claim.ts';
import { beatMs, endExpiredLeases, renewLeases } from '../../src/queue/claim/leases.ts';
import { hasExpiredLease, LEASE_GRACE_MS } from '../../src/queue/claim/waiting.ts';
import { policyOf, type RetryPolicy } from '../../src/queue/settle/retry-policy.ts';
import { endQueuedRun } from '../../src/queue/settle/settle-run.ts';
import { recordActivity } from '../../src/store/events.ts';

import { makeFinishedRun } from '../support/finished-run.ts';
import { holdLog } from '../support/hold-log.ts';
import { checkInvariants } from '../support/invariants.ts';
import { queryLog } from '../support/open-log.ts';
import { openTestQueue, START } from '../support/test-queue.ts';
import { writeLog } from '../support/written-log.ts';

const LEASE_MS = 60_000;
const settings = { leaseMs: LEASE_MS, missedCap: 10 };

interface Taking {
  readonly options?: JobOptions;
  readonly policy?: Partial<RetryPolicy>;
  readonly at?: number;
}

/** A job that a worker of the runner has taken. */
async function takeAsWorker({ options = {}, policy = {}, at = START }: Taking = {}) {
  const log = await openTestQueue();
  const { addPass } = await writeLog(log.root);
  const workerId = await addPass('hourly', at, { state: 'running' });
  await recordActivity(log.db, { at, event: 'worker-started', workerId });
  const id = await log.queue.add('a', {}, options);
  const selection = { groupLimit: null, isWanted: () => true, isFused: () => false };
  const facts = {
    ...{ policy: { ...policyOf({}), ...policy }, timeoutMs: null, contentHash: null, isWarm: true },
  };
  const claiming = { workerId, at, defaultLeaseMs: LEASE_MS, handlerOf: () => facts };
  const [claimed] = await claimJobs(log.db, async () => selection, claiming, 1);
  if (claimed === undefined) throw new Error('There is none.');
  const look = (now: number) => endExpiredLeases(log.db, () => now, settings);
  const { claim } = claimed;
  const ended = { claim, run: makeFinishedRun({ finished_at: at + 1 }), result: null, ask: null };
  const finish = () =>
    log.db
      .transaction()
      .execute((db) =>
        endQueuedRun(db, { ...ended, isRetryable: true }, { workerId, missedCap: 10 }),
      );
  return { ...log, id, workerId, look, finish };
}

test('a worker’s claim is given one more beat, and then the job is taken back', async () => {
  const { id, look, row, runs, events, root, finish, workerId, dumpWithoutOutput } =
    await takeAsWorker();
  const overAt = START + LEASE_MS + 1;
  expect([await look(overAt - 1), row(id).leased_until]).toEqual([0, START + LEASE_MS]);
  expect(await look(overAt)).toBe(0);
  const moreMs = 2 * beatMs(LEASE_MS);
  const reason = 'its lease ran out at 2026-03-10T13:01:00.000Z without having been renewed';
  expect(row(id)).toMatchObject({ state: 'running', leased_until: overAt + moreMs, reason });
  expect(await look(overAt + moreMs)).toBe(0);
  expect(await look(overAt + moreMs + 1)).toBe(1);
  expect(row(id)).toMatchObject({
    ...{ state: 'retrying', timeouts: 1, crashes: 0, attempts: 1, reason, claimed_by: null },
    run_at: overAt + moreMs + 1 + 60_000,
  });
  expect(runs(id)).toMatchObject([{ outcome: 'crashed', reason, duration_ms: null }]);
  expect(events(id)).toEqual(['job-queued', 'job-running', 'job-lease-expired', 'job-retrying']);
  const told = `select worker_id, detail from activity where event = 'job-lease-expired'`;
  expect(queryLog(root, told)).toEqual([{ worker_id: workerId, detail: reason }]);
  const before = dumpWithoutOutput();
  expect(await finish()).toBeNull();
  expect(dumpWithoutOutput()).toBe(before);
  checkInvariants(root, { isSettled: false });
});

test('a late renewal keeps the claim, and nothing is left of its having been late', async () => {
  const { id, db, look, row, workerId, root, finish } = await takeAsWorker({
    options: { lease: '10s' },
  });
  await look(START + 11_000);
  expect(row(id).reason).not.toBeNull();
  await renewLeases(db, workerId, { at: START + 12_000, defaultLeaseMs: LEASE_MS });
  expect(row(id)).toMatchObject({ leased_until: START + 22_000, reason: null });
  // The next time it is late it is given time anew.
  expect(await look(START + 23_000)).toBe(0);
  expect(row(id).state).toBe('running');
  expect(await finish()).toEqual({ state: 'finished' });
  expect(row(id)).toMatchObject({ state: 'finished', reason: null });
  checkInvariants(root, { isSettled: false });
});

test('a worker renews its own claims, each by its own lease, and no other’s', async () => {
  const { id, db, row, take, queue, workerId } = await takeAsWorker({ options: { lease: '10s' } });
  const other = await take('b', { lease: '10s' });
  const ended = await take('c');
  await queue.finish(ended);
  await renewLeases(db, workerId, { at: START + 5_000, defaultLeaseMs: LEASE_MS });
  expect(row(id).leased_until).toBe(START + 15_000);
  expect(row(other.id).leased_until).toBe(START + 10_000);
  expect(row(ended.id).leased_until).toBeNull();
  await db.updateTable('jobs').set({ lease_ms: null }).where('id', '=', id).execute();
  await renewLeases(db, workerId, { at: START + 5_000, defaultLeaseMs: LEASE_MS });
  expect(row(id).leased_until).toBe(START + 5_000 + LEASE_MS);
});

test('a worker renews often enough for each lease, and is given time for one more', () => {
  expect([1_000, 30_000, 50_000, 60_000, 600_000].map(beatMs)).toEqual([
    100, 3_000, 5_000, 5_000, 5_000,
  ]);
});

test.each([
  [{ onCrash: 'skip' }, {}, 'cancelled', 'job-cancelled'],
  [{ onCrash: 'fail' }, {}, 'failed', 'job-failed'],
  [{}, { retries: 5 }, 'retrying', 'job-retrying'],
] as const)('what follows is what follows a crash: %j', async (policy, options, state, event) => {
  const { id, look, row, events, root } = await takeAsWorker({ options, policy });
  await look(START + LEASE_MS + 1);
  await look(START + 2 * LEASE_MS);
  expect(row(id).state).toBe(state);
  expect(events(id).at(-1)).toBe(event);
  checkInvariants(root, { isSettled: false });
});

test('who is no worker has until a little after the lease; then the next one gets it at once', async () => {
  const { queue, db, take, row, clock, root } = await openTestQueue();
  const job = await take('a', { lease: '10s' });
  const overAt = START + 10_000 + LEASE_GRACE_MS;
  expect(await hasExpiredLease(db, overAt)).toBe(false);
  expect(await endExpiredLeases(db, () => overAt, settings)).toBe(0);
  expect(await hasExpiredLease(db, overAt + 1)).toBe(true);
  expect(await endExpiredLeases(db, () => overAt + 1, settings)).toBe(1);
  expect(row(job.id)).toMatchObject({ state: 'retrying', run_at: overAt + 1, timeouts: 1 });
  clock.at = overAt + 1;
  expect((await queue.claim())?.id).toBe(job.id);
  await expect(queue.finish(job)).rejects.toMatchObject({ code: 'stale-claim' });
  checkInvariants(root, { isSettled: false });
});

test('a job that is handed out ten times without an end fails', async () => {
  const { queue, take, row, clock } = await openTestQueue();
  const job = await take('a');
  for (let hand = 1; hand < 10; hand += 1) {
    clock.at += LEASE_MS + LEASE_GRACE_MS + 1;
    expect((await queue.claim())?.attempt).toBe(hand + 1);
  }
  clock.at += LEASE_MS + LEASE_GRACE_MS + 1;
  expect(await queue.claim()).toBeNull();
  expect(row(job.id)).toMatchObject({ state: 'failed', timeouts: 10, reserves: 10 });
});

test('a log that is held longer than a lease loses nobody’s claim', async () => {
  const { id, db, root, row, queue, clock, workerId, finish } = await takeAsWorker({
    options: { lease: '1s' },
    at: Date.now(),
  });
  const holder = await holdLog(root, 3_500);
  const look = () => endExpiredLeases(db, Date.now, settings);
  // Who looks waits for the lock like everybody, and may be the first who gets it.
  expect(await look()).toBe(0);
  await holder.ended;
  expect(await look()).toBe(0);
  clock.at = Date.now();
  expect(await queue.claim()).toBeNull();
  expect(row(id)).toMatchObject({ state: 'running', reason: expect.stringMatching(/^its lease/) });
  await renewLeases(db, workerId, { at: Date.now(), defaultLeaseMs: LEASE_MS });
  expect(row(id)).toMatchObject({ state: 'running', reason: null, timeouts: 0 });
  expect(await finish()).toEqual({ state: 'finished' });
});

test('who is no worker does not lose a claim, either, to who has waited for the log with it', async () => {
  const { queue, take, db, root, row, clock } = await openTestQueue();
  clock.at = Date.now();
  const job = await take('a', { lease: '1s' });
  // Its lease is over, with its grace, as soon as the log is held.
  await db
    .updateTable('jobs')
    .set({ leased_until: Date.now() - LEASE_GRACE_MS - 1 })
    .where('id', '=', job.id)
    .execute();
  await holdLog(root, LEASE_GRACE_MS);
  expect(await endExpiredLeases(db, Date.now, settings)).toBe(0);
  clock.at = Date.now();
  await queue.touch(job);
  expect(await endExpiredLeases(db, Date.now, settings)).toBe(0);
  expect(row(job.id)).toMatchObject({ state: 'running', timeouts: 0 });
});
