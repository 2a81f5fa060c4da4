import { chownSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LockHolder } from '../../../src/system/lock/holder.ts';
import { type LockFile, takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { type Holder, leaveLock, startHolder } from '../../support/faults/locks.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

/*
 * Real places in which a process cannot be seen as usual: as root, since only root may make them.
 * They are gone with the process that is in them.
 */
const container = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
const containerWithForeignProc = ['unshare', '--pid', '--fork', '--kill-child'];
const withoutProc = within('mount -t tmpfs none /proc');
const withHiddenPids = within(
  'mount -t proc -o hidepid=2 none /proc',
  'setpriv --reuid=65534 --regid=65534 --clear-groups',
);

function within(prepare: string, start = ''): string[] {
  return ['unshare', '--mount', 'sh', '-ec', `${prepare}; exec ${start} "$@"`, 'sh'];
}

const self: LockHolder = { ...identifyProcess(process.pid), since: 1 };
const quick = { refreshMs: 1_000, staleMs: 4_000, unprovenMs: 6_000 };
const minuteMs = 60_000;

function makeLocks(): string {
  const { path, locks } = makeStateOf(makeTemporaryRoot());
  for (const folder of [join(path, '..'), path, locks]) chownSync(folder, 65534, 65534);
  return locks;
}

const take = (locks: string, timing = quick): Promise<LockFile | LockHolder> =>
  takeLockFile(locks, 'hourly', self, expect.fail, timing);

function readHolder(locks: string): LockHolder {
  const [name = ''] = globSync('hourly.lock/*.json', { cwd: locks });
  return JSON.parse(readFileSync(join(locks, name), 'utf8'));
}

async function end(holder: Holder): Promise<void> {
  holder.kill('SIGKILL');
  await holder.ended;
}

test.each([
  ['with a /proc of its own', container],
  ['that sees the machine’s /proc', containerWithForeignProc],
])('a container %s keeps its lock while it lives, though its pid is another one outside', async (_what, place) => {
  const locks = makeLocks();
  const holder = startHolder(locks, { within: place, refreshMs: quick.refreshMs });
  expect(await holder.answer()).toBe('held');
  const { pid, bootId, startTicks } = readHolder(locks);
  expect(pid).toBeLessThan(100);
  expect(bootId).toMatch(/^[0-9a-f-]{36} pid:\[\d+\]$/);
  expect(startTicks === null).toBe(place === containerWithForeignProc);
  const until2StaleMs = performance.now() + 2 * quick.staleMs;
  await until('it was held for longer than it would be fresh unrefreshed', async () => {
    expect(await take(locks)).toMatchObject({ pid, bootId });
    return performance.now() > until2StaleMs;
  });
  await end(holder);
  const taken: LockFile[] = [];
  await until('the dead one’s lock is not believed any more', async () => {
    const lock = await take(locks);
    if ('release' in lock) taken.push(lock);
    return taken.length > 0;
  });
  await taken[0]?.release();
  expect(readdirSync(locks)).toEqual([]);
});

test('a container does not take the lock of a process outside, whose pid nobody has inside', async () => {
  const locks = makeLocks();
  const lock = (await take(locks)) as LockFile;
  const inside = startHolder(locks, { within: container });
  expect(await inside.answer()).toBe('refused');
  await lock.release();
});

test('without /proc a living holder keeps its lock, and a dead one loses it at once', async () => {
  const locks = makeLocks();
  const place = { within: withoutProc };
  const holder = startHolder(locks, place);
  expect(await holder.answer()).toBe('held');
  expect(readHolder(locks)).toMatchObject({ pid: holder.pid, bootId: null, startTicks: null });
  expect(await startHolder(locks, place).answer()).toBe('refused');
  await end(holder);
  const next = startHolder(locks, place);
  expect(await next.answer()).toBe('held');
  expect(next.readDiary()).toEqual([`over from ${holder.pid}`, 'held']);
  await end(next);
});

test.each([
  ['without /proc', withoutProc],
  ['with other users’ processes hidden', withHiddenPids],
])('%s a pid that another process has by now keeps the lock for 15 minutes, not for ever', async (_what, place) => {
  // Root's first process: alive, and hidden from others.
  const reused: LockHolder = { ...self, pid: 1, startTicks: 123_456_789 };
  for (const [ageMs, answer] of [
    [14 * minuteMs, 'refused'],
    [16 * minuteMs, 'held'],
  ] as const) {
    const locks = makeLocks();
    const lock = leaveLock(locks, 'hourly', reused, ageMs);
    for (const path of [lock, ...globSync('*', { cwd: lock }).map((name) => join(lock, name))]) {
      chownSync(path, 65534, 65534);
    }
    const holder = startHolder(locks, { within: place });
    expect(await holder.answer()).toBe(answer);
    await end(holder);
  }
});
