import { readdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { Store } from '../../../src/store/store.ts';
import type { LockHolder } from '../../../src/system/lock/holder.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';
import { markDeadWorkers } from '../../../src/worker/recovery/dead-workers.ts';
import {
  type TierLock,
  type TierLockRefused,
  takeTier,
  type WorkerRequest,
} from '../../../src/worker/recovery/tier-lock.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { leaveLock } from '../../support/faults/locks.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf, openSqliteOf } from '../../support/store.ts';

const NOON = Date.UTC(2026, 10, 1, 12);
const self = identifyProcess(process.pid);

function requestFor(tier: string, fields: Partial<WorkerRequest> = {}): WorkerRequest {
  return {
    kind: 'tier',
    tier,
    ...self,
    scheduledFor: NOON,
    startedAt: NOON,
    trigger: 'cron',
    runnerVersion: '0.1.0',
    nodeVersion: process.version,
    ...fields,
  };
}

/** A root with an open log, and what takes its tiers. */
async function openRoot() {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const store = await openSqliteOf(root);
  const take = (request: WorkerRequest, of: Store = store): Promise<TierLock | TierLockRefused> =>
    takeTier(
      of,
      state,
      request,
      () => {},
      async () => async () => {},
    );
  return { root, state, store, take };
}

/** A worker's row as a process leaves it that could not end it. */
async function leaveWorker(store: Store, process: ProcessIdentity, startedAt: number) {
  await store.workers.start(requestFor('hourly', { ...process, startedAt }));
}

/** The lock file of one that died, last refreshed at that instant. */
function leaveLockSeenAt(state: StateFolder, holder: LockHolder, at: number): void {
  const path = leaveLock(state.locks, 'hourly', holder);
  utimesSync(join(path, 'left.json'), new Date(at), new Date(at));
}

function deadSince({ pid, host }: ProcessIdentity, at: string): string {
  return `pid ${pid} on ${host}, dead since ${at} (its last sign of life)`;
}

const takeovers = `select worker_id, detail from activity where event = 'lock-taken-over'`;

test('a takeover tells when the dead one was last seen: its lock’s last refresh', async () => {
  const { root, state, store, take } = await openRoot();
  const dead = identifyDeadProcess();
  await leaveWorker(store, dead, NOON - 600_000);
  leaveLockSeenAt(state, { ...dead, since: NOON - 600_000 }, NOON - 60_000);
  const lock = (await take(requestFor('hourly'))) as TierLock;
  const holder = deadSince(dead, '2026-11-01T11:59:00.000Z');
  expect(lock.takenOverFrom).toBe(holder);
  const detail = `took hourly over from ${holder}`;
  expect(queryLog(root, takeovers)).toEqual([{ worker_id: 2, detail }]);
  await lock.release();
});

test('who was found dead before by somebody else is taken over all the same, and told once', async () => {
  const { root, state, store, take } = await openRoot();
  const dead = identifyDeadProcess();
  await leaveWorker(store, dead, NOON - 600_000);
  // Refreshed by a clock that was set back since.
  leaveLockSeenAt(state, { ...dead, since: NOON - 600_000 }, NOON + 5_000);
  await markDeadWorkers(store, state, NOON - 1_000);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'crashed' }]);
  for (const expected of [deadSince(dead, '2026-11-01T12:00:00.000Z'), null]) {
    const lock = (await take(requestFor('hourly'))) as TierLock;
    expect(lock.takenOverFrom).toBe(expected);
    await lock.release();
    await store.workers.end(lock.workerId, { state: 'finished', at: NOON, reason: null });
  }
  expect(queryLog(root, takeovers)).toHaveLength(1);
});

test('a dead worker and another one’s lock file are two takeovers', async () => {
  const { root, state, store, take } = await openRoot();
  const [one, other] = [identifyDeadProcess(), identifyDeadProcess()];
  await leaveWorker(store, one, NOON - 600_000);
  leaveLockSeenAt(state, { ...other, since: NOON }, NOON - 1_000);
  const lock = (await take(requestFor('hourly'))) as TierLock;
  expect(lock.takenOverFrom?.split(' and ')).toEqual([
    deadSince(other, '2026-11-01T11:59:59.000Z'),
    deadSince(one, '2026-11-01T11:50:00.000Z'),
  ]);
  expect(queryLog(root, takeovers)).toHaveLength(2);
  await lock.release();
});

test('a lock file is respected even when the log knows nothing of its holder', async () => {
  const { state, take } = await openRoot();
  const lock = (await take(requestFor('hourly'))) as TierLock;
  const newLog = await openSqliteStore({ ...state, database: join(state.path, 'new.db') });
  expect(await take(requestFor('hourly'), newLog)).toMatchObject({
    held: false,
    reason: expect.stringMatching(/^another pass of hourly is running: pid \d+ on /),
  });
  const rows = newLog.connection.prepare('select state, skip_code, reason from workers').all([]);
  expect(rows).toEqual([
    { state: 'skipped', skip_code: 'held', reason: expect.stringMatching(/^another pass of hourly was running: pid/) },
  ]);
  await newLog.close();
  await lock.release();
});

test('a living worker is respected even when its lock file was removed', async () => {
  const { root, state, take } = await openRoot();
  const lock = (await take(requestFor('hourly'))) as TierLock;
  rmSync(join(state.locks, 'hourly.lock'), { recursive: true });
  expect(await take(requestFor('hourly'))).toMatchObject({ held: false });
  expect(readdirSync(state.locks)).toEqual([]);
  expect(queryLog(root, 'select state from workers order by id')).toEqual([{ state: 'running' }, { state: 'skipped' }]);
  await lock.release();
});

test.each([
  ['on another host', { host: 'elsewhere.example' }, 60_000],
  ['in another container', { bootId: `${self.bootId} pid:[4026599999]` }, 60_000],
  ['with a start that nobody knows', { startTicks: null }, 15 * 60_000],
])('a worker %s is alive while it refreshes its lock, and then is not', async (_where, fields, limitMs) => {
  const { root, state, store, take } = await openRoot();
  const worker = { ...self, ...fields };
  await leaveWorker(store, worker, NOON - 3_600_000);
  const holder = { ...worker, since: NOON - 3_600_000 };
  leaveLock(state.locks, 'hourly', holder, limitMs - 5_000);
  await markDeadWorkers(store, state, NOON);
  expect(await take(requestFor('hourly'))).toEqual({
    held: false,
    reason: `another pass of hourly is running: pid ${self.pid} on ${worker.host}, since 2026-11-01T11:00:00.000Z`,
  });
  leaveLock(state.locks, 'hourly', holder, limitMs + 1_000);
  const lock = (await take(requestFor('hourly'))) as TierLock;
  expect(lock.held).toBe(true);
  expect(queryLog(root, 'select state from workers order by id')).toEqual([
    { state: 'crashed' },
    { state: 'skipped' },
    { state: 'running' },
  ]);
  expect(queryLog(root, takeovers)).toHaveLength(1);
  await lock.release();
});

test('a worker on another host has its lock file before its row: without one it is dead', async () => {
  const { root, state, store } = await openRoot();
  await leaveWorker(store, { ...self, host: 'elsewhere.example' }, NOON - 5);
  await markDeadWorkers(store, state, NOON);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'crashed' }]);
});

test('where the log cannot be written the lock file is given back', async () => {
  const { state, take } = await openRoot();
  const closed = await openSqliteStore({ ...state, database: join(state.path, 'closed.db') });
  await closed.close();
  await expect(take(requestFor('hourly'), closed)).rejects.toThrow();
  expect(readdirSync(state.locks)).toEqual([]);
});
