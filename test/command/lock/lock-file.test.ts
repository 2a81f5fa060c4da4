import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import type { LockHolder } from '../../../src/system/lock/holder.ts';
import { clearDeadLock, isLockHeldBy, type LockFile, takeLockFile } from '../../../src/system/lock/lock-file.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { leaveLock } from '../../support/faults/locks.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const self: LockHolder = { ...identifyProcess(process.pid), since: 1_000 };
const elsewhere: LockHolder = { ...self, host: 'elsewhere.example' };
const inContainer: LockHolder = { ...self, bootId: `${self.bootId} pid:[4026599999]` };
const unproven: LockHolder = { ...self, startTicks: null };
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const quick = { refreshMs: 1_000, staleMs: 2_000, unprovenMs: 4_000 };

const identifyDead = (): LockHolder => ({ ...identifyDeadProcess(), since: 1 });

function makeFolder(): string {
  return makeStateOf(makeTemporaryRoot()).locks;
}

function take(folder: string, holder: LockHolder = self): Promise<LockFile | LockHolder> {
  return takeLockFile(folder, 'hourly', holder, (reason) => {
    throw new Error(`compromised: ${reason}`);
  });
}

async function takeAndRelease(folder: string): Promise<LockFile> {
  const lock = (await take(folder)) as LockFile;
  expect(lock).toHaveProperty('release');
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
  return lock;
}

/** The lock's only file: who holds it. */
function findHolderFile(folder: string): string {
  const names = readdirSync(join(folder, 'hourly.lock')).filter((name) => name.endsWith('.json'));
  expect(names).toHaveLength(1);
  return join(folder, 'hourly.lock', names[0] as string);
}

test('a lock names its holder, and leaves nothing when it is released', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  expect(lock.takenOverFrom).toEqual([]);
  expect(readdirSync(folder)).toEqual(['hourly.lock']);
  const file = findHolderFile(folder);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(self);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(folder, 'hourly.lock')).mode & 0o777).toBe(0o700);
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('a lock held by a living process is not taken, however old it is', async () => {
  const folder = makeFolder();
  leaveLock(folder, 'hourly', self, 24 * hourMs);
  expect(await take(folder)).toEqual(self);
});

test('who is refused changes nothing', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  const before = readdirSync(join(folder, 'hourly.lock'));
  expect(await take(folder)).toEqual(self);
  expect(readdirSync(folder)).toEqual(['hourly.lock']);
  expect(readdirSync(join(folder, 'hourly.lock'))).toEqual(before);
  await lock.release();
  await takeAndRelease(folder);
});

test.each([
  ['fresh', 0],
  ['long stale', hourMs],
  ['from the future, as after a step of the clock', -hourMs],
])('the lock of a dead process is taken at once, and it is told: %s', async (_what, ageMs) => {
  const folder = makeFolder();
  const dead = identifyDead();
  const lastSeenAt = Date.now() - ageMs;
  leaveLock(folder, 'hourly', dead, ageMs);
  const { takenOverFrom } = await takeAndRelease(folder);
  expect(takenOverFrom).toEqual([{ holder: dead, lastSeenAt: expect.any(Number) }]);
  expect(Math.abs((takenOverFrom[0]?.lastSeenAt ?? 0) - lastSeenAt)).toBeLessThan(1_000);
  expect((await takeAndRelease(folder)).takenOverFrom).toEqual([]);
});

test.each<[string, (folder: string) => void]>([
  ['an empty folder', (folder) => mkdirSync(join(folder, 'hourly.lock'))],
  ['a plain file', (folder) => writeFileSync(join(folder, 'hourly.lock'), '')],
  ['a link to nowhere', (folder) => symlinkSync('nowhere', join(folder, 'hourly.lock'))],
  [
    'a folder with a file of another program',
    (folder) => writeFileSync(join(leaveLock(folder, 'hourly', identifyDead()), '.nfs0001'), ''),
  ],
  [
    'the holder’s file of one killed before it refreshed it the first time',
    (folder) => rmSync(join(leaveLock(folder, 'hourly', identifyDead()), 'left.lock'), { recursive: true }),
  ],
  [
    'a lock of which only the refreshed folder is left',
    (folder) => rmSync(join(leaveLock(folder, 'hourly', identifyDead()), 'left.json')),
  ],
  [
    'two dead holders, brought together by a copy',
    (folder) =>
      writeFileSync(join(leaveLock(folder, 'hourly', identifyDead()), 'more.json'), JSON.stringify(identifyDead())),
  ],
  [
    'what one prepared who was killed before it tried',
    (folder) => renameSync(leaveLock(folder, 'x', identifyDead()), join(folder, 'hourly.lock.x.new')),
  ],
])('leftovers do not keep a lock from being taken, and go: %s', async (_what, leave) => {
  const folder = makeFolder();
  leave(folder);
  await takeAndRelease(folder);
});

test('a link in the lock’s place is removed, not what it points to', async () => {
  const folder = makeFolder();
  const target = makeTemporaryRoot({ 'kept.txt': 'kept' });
  symlinkSync(target, join(folder, 'hourly.lock'));
  await takeAndRelease(folder);
  expect(readFileSync(join(target, 'kept.txt'), 'utf8')).toBe('kept');
});

test('a takeover that its maker died of is told by the next one', async () => {
  const folder = makeFolder();
  const dead = identifyDead();
  const lock = leaveLock(folder, 'hourly', dead);
  // As it stands between clearing the lock and getting into it.
  renameSync(join(lock, 'left.json'), `${lock}.left.json.dead`);
  const { takenOverFrom } = await takeAndRelease(folder);
  expect(takenOverFrom.map(({ holder }) => holder)).toEqual([dead]);
});

test.each(['', '{"host":', 'null', '{"host": 1}', '{"host": "a", "pid": 0}'])(
  'a lock whose holder cannot be read (%j) is nobody’s',
  async (text) => {
    const folder = makeFolder();
    leaveLock(folder, 'hourly', text);
    await takeAndRelease(folder);
  },
);

test.each([
  ['another host', elsewhere, minuteMs],
  ['another container', inContainer, minuteMs],
  ['a pid of which no start is known', unproven, 15 * minuteMs],
])('who cannot be seen holds a lock for as long as it is refreshed: %s', async (_who, holder, limitMs) => {
  for (const ageMs of [0, limitMs - 5_000, -limitMs + 5_000]) {
    const folder = makeFolder();
    leaveLock(folder, 'hourly', holder, ageMs);
    expect(isLockHeldBy(folder, 'hourly', holder)).toBe(true);
    expect(await take(folder)).toEqual(holder);
  }
  for (const ageMs of [limitMs + 1_000, -limitMs - 5_000, 24 * hourMs]) {
    const folder = makeFolder();
    leaveLock(folder, 'hourly', holder, ageMs);
    expect(isLockHeldBy(folder, 'hourly', holder)).toBe(false);
    const { takenOverFrom } = await takeAndRelease(folder);
    expect(takenOverFrom).toMatchObject([{ holder }]);
  }
});

test('what the dead have left is cleared without being taken, and told once', async () => {
  const folder = makeFolder();
  const dead = identifyDead();
  writeFileSync(join(leaveLock(folder, 'hourly', dead), 'backup.tmp'), '');
  renameSync(leaveLock(folder, 'x', dead), join(folder, 'hourly.lock.x.new'));
  expect(clearDeadLock(folder, 'hourly').map(({ holder }) => holder)).toEqual([dead]);
  expect(readdirSync(folder)).toEqual([]);
  expect(clearDeadLock(folder, 'hourly')).toEqual([]);
  expect((await takeAndRelease(folder)).takenOverFrom).toEqual([]);
});

test('a living one’s lock is not cleared', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  const before = readdirSync(folder, { recursive: true });
  expect(clearDeadLock(folder, 'hourly')).toEqual([]);
  expect(readdirSync(folder, { recursive: true })).toEqual(before);
  await lock.release();
});

test('a lock speaks for its own holder only', () => {
  const folder = makeFolder();
  leaveLock(folder, 'hourly', elsewhere);
  expect(isLockHeldBy(folder, 'hourly', elsewhere)).toBe(true);
  expect(isLockHeldBy(folder, 'hourly', { ...elsewhere, pid: elsewhere.pid + 1 })).toBe(false);
  expect(isLockHeldBy(folder, 'daily', elsewhere)).toBe(false);
});

test('a lock is refreshed by the file system’s clock while it is held', async () => {
  const folder = makeFolder();
  const lock = (await takeLockFile(folder, 'hourly', self, expect.fail, quick)) as LockFile;
  const file = findHolderFile(folder);
  utimesSync(file, 0, 0);
  await until('it is refreshed', () => statSync(file).mtimeMs > Date.now() - 5_000);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(self);
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

/** What the library refreshes, once it has: before that it makes it, and sets its time to learn how fine that is. */
async function findHeartbeat(folder: string): Promise<string> {
  const path = findHolderFile(folder).replace('.json', '.lock');
  const times = new Set<number | undefined>();
  await until('it is refreshed', () => {
    times.add(statSync(path, { throwIfNoEntry: false })?.mtimeMs);
    return times.size > 3;
  });
  return path;
}

test.each<[string, (folder: string) => void | Promise<void>]>([
  ['removed', (folder) => rmSync(join(folder, 'hourly.lock'), { recursive: true })],
  [
    'removed once it has been refreshed',
    async (folder) => rmSync(dirname(await findHeartbeat(folder)), { recursive: true }),
  ],
  ['robbed of its holder', (folder) => rmSync(findHolderFile(folder))],
  [
    'replaced by another one’s',
    (folder) => {
      rmSync(join(folder, 'hourly.lock'), { recursive: true });
      leaveLock(folder, 'hourly', elsewhere);
    },
  ],
  ['refreshed by another program', async (folder) => utimesSync(await findHeartbeat(folder), new Date(0), new Date(0))],
  ['moved with its home', (folder) => renameSync(join(folder, 'hourly.lock'), join(folder, 'moved.lock'))],
])('a lock that is %s is lost: told once, and released without harm', async (_how, harm) => {
  const folder = makeFolder();
  const told: string[] = [];
  const tell = (reason: string) => void told.push(reason);
  const lock = (await takeLockFile(folder, 'hourly', self, tell, quick)) as LockFile;
  await harm(folder);
  await until('the loss is noticed', () => told.length > 0);
  const before = readdirSync(folder, { recursive: true });
  await lock.release();
  expect(told).toHaveLength(1);
  if (existsSync(join(folder, 'hourly.lock', 'left.json'))) {
    const others = before.filter((name) => !/\/\d+-[^/]*\.lock$/.test(String(name)));
    expect(readdirSync(folder, { recursive: true })).toEqual(others);
  }
});

test('a lock that moved with its home holds there until its holder ends', async () => {
  const folder = makeFolder();
  const moved = makeFolder();
  const lock = (await takeLockFile(folder, 'hourly', self, () => {}, quick)) as LockFile;
  renameSync(join(folder, 'hourly.lock'), join(moved, 'hourly.lock'));
  expect(await take(moved)).toEqual(self);
  await lock.release();
});

test('a file that gets into the lock folder does not keep the lock from being released', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  writeFileSync(join(folder, 'hourly.lock', 'backup.tmp'), '');
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('releasing leaves alone who has taken the lock over meanwhile', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  rmSync(join(folder, 'hourly.lock'), { recursive: true });
  leaveLock(folder, 'hourly', elsewhere);
  await lock.release();
  expect(readdirSync(join(folder, 'hourly.lock')).toSorted()).toEqual(['left.json', 'left.lock']);
});

test('where no lock can be made the reason is told', async () => {
  const missing = join(makeFolder(), 'missing');
  await expect(take(missing)).rejects.toThrow(/ENOENT/);
});
