import { existsSync, globSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type LockFile, takeLockFile } from '../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { type TierLock, takeTier } from '../../src/worker/recovery/tier-lock.ts';
import { cronPlace, runCommand } from '../support/command.ts';
import { endOrphans, startWithFault, stopOutsideOfWrites } from '../support/faults/faults.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { type Holder, leaveLock, startHolder } from '../support/faults/locks.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { makeStateOf, openStoreOf } from '../support/store.ts';
import { until } from '../support/until.ts';

const self = { ...identifyProcess(process.pid), since: Date.now() };
const refreshMs = 1_000;
const quick = { refreshMs, staleMs: 2 * refreshMs, unprovenMs: 900_000 };

const take = (locks: string) => takeLockFile(locks, 'hourly', self, expect.fail, quick);

/** Holds the lock and has been stopped for longer than an unseen holder's lock is believed. */
async function startStopped(locks: string): Promise<Holder> {
  const holder = startHolder(locks, { refreshMs });
  expect(await holder.answer()).toBe('held');
  holder.kill('SIGSTOP');
  await until('it is stopped', () => holder.isStopped());
  // As after an hour: the lock's age is all that a longer wait would change.
  const hourAgo = new Date(Date.now() - 3_600_000);
  utimesSync(findHolderFile(locks), hourAgo, hourAgo);
  return holder;
}

function findHolderFile(locks: string): string {
  const [name = ''] = globSync('hourly.lock/*.json', { cwd: locks });
  return join(locks, name);
}

async function goOnAndEnd(holder: Holder): Promise<string[]> {
  holder.kill('SIGUSR2');
  expect(await holder.ended).toMatchObject({ status: 0, stderr: '' });
  return holder.readDiary();
}

test('a stopped process keeps its lock for as long as it is stopped, and goes on with it', async () => {
  const { locks } = makeStateOf(makeTemporaryRoot());
  const holder = await startStopped(locks);
  const refused = { pid: holder.pid };
  expect(await take(locks)).toMatchObject(refused);
  const stoppedAt = performance.now();
  await until('it was stopped for longer than its lock stays fresh', async () => {
    expect(await take(locks)).toMatchObject(refused);
    return performance.now() - stoppedAt > 2 * quick.staleMs;
  });
  holder.kill('SIGCONT');
  const readTime = (): number => statSync(findHolderFile(locks)).mtimeMs;
  await until('it refreshes its lock again', () => readTime() > Date.now() - 60_000);
  expect(await take(locks)).toMatchObject(refused);
  expect(await goOnAndEnd(holder)).toEqual(['held', 'released']);
  expect(readdirSync(locks)).toEqual([]);
});

test('neither does the log give a stopped worker’s tier to another one', async () => {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const store = await openStoreOf(root);
  const holder = await startStopped(state.locks);
  const identity = identifyProcess(holder.pid);
  const worker = {
    ...({ kind: 'tier', tier: 'hourly', trigger: 'cron', scheduledFor: null } as const),
    ...{ runnerVersion: '0', nodeVersion: '0' },
  };
  await store.workers.start({ ...worker, ...identity, startedAt: 0 });
  const request = { ...worker, ...self, startedAt: Date.now() };
  const takeIt = () => takeTier(store, state, request, expect.fail, async () => async () => {}, quick);
  expect(await takeIt()).toMatchObject({ held: false });
  // The slot alone holds it as well, when its lock file was removed.
  rmSync(join(state.locks, 'hourly.lock'), { recursive: true });
  expect(await takeIt()).toMatchObject({ held: false });
  expect(readdirSync(state.locks)).toEqual([]);
  holder.kill('SIGKILL');
  await holder.ended;
  const lock = (await takeIt()) as TierLock;
  expect(lock.takenOverFrom).toMatch(new RegExp(`^pid ${holder.pid} on .+, dead since .+`));
  await lock.release();
});

test('who was robbed while it was stopped learns it when it goes on, and harms nobody', async () => {
  const { locks } = makeStateOf(makeTemporaryRoot());
  const holder = await startStopped(locks);
  rmSync(join(locks, 'hourly.lock'), { recursive: true });
  const lock = (await take(locks)) as LockFile;
  holder.kill('SIGCONT');
  await until('it notices', () => holder.readDiary().length > 1);
  expect(holder.readDiary()).toEqual(['held', expect.stringMatching(/^lost: ENOENT/)]);
  expect(await goOnAndEnd(holder)).toHaveLength(3);
  expect(await take(locks)).toEqual(self);
  await lock.release();
  expect(readdirSync(locks)).toEqual([]);
});

test.each<NodeJS.Signals>(['SIGTERM', 'SIGINT', 'SIGKILL'])(
  'a holder that is ended by %s does not touch the lock of who robbed it',
  async (signal) => {
    const { locks } = makeStateOf(makeTemporaryRoot());
    const holder = startHolder(locks);
    expect(await holder.answer()).toBe('held');
    rmSync(join(locks, 'hourly.lock'), { recursive: true });
    leaveLock(locks, 'hourly', self);
    const before = readdirSync(join(locks, 'hourly.lock'));
    holder.kill(signal);
    await holder.ended;
    expect(readdirSync(join(locks, 'hourly.lock'))).toEqual(before);
  },
);

test.each<NodeJS.Signals>(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'])(
  'what a holder leaves that is ended by %s the next one takes over and clears away',
  async (signal) => {
    const { locks } = makeStateOf(makeTemporaryRoot());
    const holder = startHolder(locks);
    expect(await holder.answer()).toBe('held');
    holder.kill(signal);
    await holder.ended;
    const lock = (await take(locks)) as LockFile;
    expect(lock.takenOverFrom.map((file) => file.holder?.pid)).toEqual([holder.pid]);
    await lock.release();
    expect(readdirSync(locks)).toEqual([]);
  },
);

test('a pass that was stopped and robbed of its lock starts nothing more, and says so', async () => {
  const waits = '#!/bin/sh\ntouch started\nuntil [ -e go ]; do sleep 0.02; done\n';
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(waits),
    'jobs/hourly/b.sh': executable('#!/bin/sh\ntouch wrong\n'),
  });
  endOrphans(root);
  const locks = join(root, '.runner', 'locks');
  // It refreshes its lock each second, instead of every ten.
  const pass = startWithFault(root, ['hourly'], { pace: 10 });
  await until('the first script runs', () => existsSync(join(root, 'started')));
  await stopOutsideOfWrites(root, [pass.pid]);
  const hourAgo = new Date(Date.now() - 3_600_000);
  utimesSync(findHolderFile(locks), hourAgo, hourAgo);
  const silent = { status: 0, stdout: '', stderr: '' };
  const runAgain = () => runCommand(['hourly', '--root', root], cronPlace(root));
  expect(runAgain()).toEqual(silent);
  rmSync(join(locks, 'hourly.lock'), { recursive: true });
  expect(runAgain()).toEqual(silent);
  pass.kill('SIGCONT');
  // At its next refresh; the log is told at the pass's end, the stop request at once.
  const control = (await take(locks)) as LockFile;
  const readTime = (): number => statSync(findHolderFile(locks)).mtimeMs;
  const takenAt = readTime();
  await until('two refreshes are over', () => readTime() - takenAt > 2 * refreshMs);
  await control.release();
  writeFileSync(join(root, 'go'), '');
  expect(await pass.ended).toEqual(silent);
  expect(existsSync(join(root, 'wrong'))).toBe(false);
  expect(queryLog(root, 'select state from workers order by id')).toEqual([
    { state: 'finished' },
    { state: 'skipped' },
    { state: 'skipped' },
  ]);
  const losses = `select worker_id from activity where event = 'lock-lost'`;
  expect(queryLog(root, losses)).toEqual([{ worker_id: 1 }]);
  expect(queryLog(root, 'select script, outcome from runs')).toEqual([{ script: 'hourly/a', outcome: 'succeeded' }]);
  expect(readdirSync(locks)).toEqual([]);
  checkInvariants(root);
});
