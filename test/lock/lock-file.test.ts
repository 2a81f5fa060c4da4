import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  isLockFileFresh,
  type LockFile,
  type LockHolder,
  takeLockFile,
} from '../../src/lock/lock-file.ts';
import { identifyProcess } from '../../src/process/process-identity.ts';
import { identifyDeadProcess } from '../support/dead-process.ts';
import { makeStateOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const self: LockHolder = { ...identifyProcess(process.pid), since: 1_000 };
const elsewhere: LockHolder = { ...self, host: 'elsewhere.example' };
const hourMs = 3_600_000;

function makeFolder(): string {
  return makeStateOf(makeTemporaryRoot()).locks;
}

function take(folder: string, holder: LockHolder = self): Promise<LockFile | LockHolder> {
  return takeLockFile(folder, 'hourly', holder, (reason) => {
    throw new Error(`compromised: ${reason}`);
  });
}

async function takeAndRelease(folder: string): Promise<void> {
  const lock = await take(folder);
  expect(lock).toHaveProperty('release');
  await (lock as LockFile).release();
}

function writeHolder(folder: string, holder: LockHolder | string): void {
  const text = typeof holder === 'string' ? holder : JSON.stringify(holder);
  writeFileSync(join(folder, 'hourly.json'), text);
}

function makeLock(folder: string, ageMs: number): string {
  const path = join(folder, 'hourly.lock');
  mkdirSync(path);
  setAge(path, ageMs);
  return path;
}

function setAge(path: string, ageMs: number): void {
  const time = new Date(Date.now() - ageMs);
  utimesSync(path, time, time);
}

test('a lock names its holder beside it, and leaves nothing when it is released', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  expect(readdirSync(folder).toSorted()).toEqual(['hourly.json', 'hourly.lock']);
  expect(JSON.parse(readFileSync(join(folder, 'hourly.json'), 'utf8'))).toEqual(self);
  expect(statSync(join(folder, 'hourly.json')).mode & 0o777).toBe(0o600);
  expect(isLockFileFresh(folder, 'hourly')).toBe(true);
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
  expect(isLockFileFresh(folder, 'hourly')).toBe(false);
});

test('a lock held by a living process is not taken, however old it is', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  expect(await take(folder)).toEqual(self);
  await lock.release();
  await takeAndRelease(folder);
});

test.each([
  ['fresh', 0],
  ['long stale', hourMs],
  ['from the future, as after a step of the clock', -hourMs],
])('the lock of a dead process is taken at once: %s', async (_what, ageMs) => {
  const folder = makeFolder();
  makeLock(folder, ageMs);
  writeHolder(folder, { ...identifyDeadProcess(), since: 1 });
  await takeAndRelease(folder);
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ['fresh', 0],
  ['long stale', hourMs],
])('a lock folder with a file in it is cleared away: %s', async (_what, ageMs) => {
  const folder = makeFolder();
  const path = makeLock(folder, 0);
  writeFileSync(join(path, '.nfs0001'), 'left by a network file system');
  setAge(path, ageMs);
  writeHolder(folder, { ...identifyDeadProcess(), since: 1 });
  await takeAndRelease(folder);
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ['fresh', 0],
  ['long stale', hourMs],
])('a plain file in the lock’s place is cleared away: %s', async (_what, ageMs) => {
  const folder = makeFolder();
  writeFileSync(join(folder, 'hourly.lock'), '');
  setAge(join(folder, 'hourly.lock'), ageMs);
  await takeAndRelease(folder);
  expect(readdirSync(folder)).toEqual([]);
});

test.each(['', '{"host":', 'null'])(
  'a lock whose holder cannot be read (%j) is nobody’s',
  async (text) => {
    const folder = makeFolder();
    makeLock(folder, 0);
    writeHolder(folder, text);
    await takeAndRelease(folder);
  },
);

test('a lock that another host keeps fresh is held; one it no longer refreshes is taken', async () => {
  const folder = makeFolder();
  const path = makeLock(folder, 30_000);
  writeHolder(folder, elsewhere);
  expect(await take(folder)).toEqual(elsewhere);
  setAge(path, 61_000);
  await takeAndRelease(folder);
});

test('a file that gets into the lock folder does not keep the lock from being released', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  writeFileSync(join(folder, 'hourly.lock', 'backup.tmp'), '');
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('releasing a lock whose folder is gone throws nothing', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  rmSync(join(folder, 'hourly.lock'), { recursive: true });
  await lock.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('releasing leaves alone who has taken the lock over meanwhile', async () => {
  const folder = makeFolder();
  const lock = (await take(folder)) as LockFile;
  writeHolder(folder, elsewhere);
  await lock.release();
  expect(existsSync(join(folder, 'hourly.json'))).toBe(true);
});

test('where no lock can be made the reason is told', async () => {
  const missing = join(makeFolder(), 'missing');
  await expect(take(missing)).rejects.toThrow(/ENOENT/);
});
