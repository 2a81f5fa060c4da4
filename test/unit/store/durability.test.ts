import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { describeStoreFailure } from '../../../src/store/describe-failure.ts';
import {
  isCorruption,
  isStoreFailure,
  kindOfStoreFailure,
  mayBeFull,
  StoreUnavailable,
} from '../../../src/store/failures.ts';
import type { Durability } from '../../../src/store/sqlite/session.ts';
import { createWakePace } from '../../../src/store/sqlite/store.ts';
import type { StoreSession } from '../../../src/store/store.ts';
import { keepReserve, releaseReserve, stateFolderAt, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { openRecordedStore } from './recorded-store.ts';

const change = ({ events }: StoreSession) => events.record([{ at: 1, event: 'job-updated' }]);
const nothing = async (): Promise<void> => {};

/** A log whose last write is on the disk. */
async function open() {
  const { store, commits } = await openRecordedStore(makeTemporaryRoot());
  const write = (work: typeof change = change, durability: Durability = 'soon') => store.transaction(work, durability);
  await write(change, 'durable');
  return { store, commits, write };
}

test('a durable write is on the disk when it has ended, with all that came before', async () => {
  const { store, commits, write } = await open();
  expect(commits.durable).toBe(commits.changing);
  await write();
  expect(commits.durable).toBe(commits.changing - 1);
  const told: string[] = [];
  store.onDurable(() => told.push('soon'));
  await write(change, 'durable');
  expect([commits.durable, told]).toEqual([commits.changing, ['soon']]);
});

test('a write that is durable soon waits for no disk, and is told of only once it is there', async () => {
  const { store, commits, write } = await open();
  const told: string[] = [];
  store.onDurable(() => told.push('before'));
  expect(told).toEqual(['before']);
  await write();
  store.onDurable(() => told.push('at once'));
  expect([commits.changing - commits.durable, told]).toEqual([1, ['before']]);
  await store.sync();
  expect([commits.changing - commits.durable, told]).toEqual([0, ['before', 'at once']]);
  // There is nothing more to wait for.
  const before = { ...commits };
  await store.sync();
  expect(commits).toEqual(before);
});

test('a last write reaches the disk soon, by itself, and is then reported', async () => {
  const { store, commits, write } = await open();
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  await until('it is told', () => isTold);
});

test('a turn that writes nothing neither counts as a write, nor as one that reached the disk', async () => {
  const { store, commits, write } = await open();
  const before = { ...commits };
  await write(nothing);
  await write(nothing, 'durable');
  await store.sync();
  expect(commits).toEqual(before);
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
    expect(commits.durable).toBe(commits.changing);
  });
  await until('it is told', async () => {
    await write(nothing);
    return isTold;
  });
});

test('a write that fails is told of to nobody, and takes nothing with it', async () => {
  const { store, commits, write } = await open();
  await write();
  let isTold = false;
  store.onDurable(() => {
    isTold = true;
  });
  const fail = write(async (session) => {
    await change(session);
    throw new Error('no');
  }, 'durable');
  await expect(fail).rejects.toThrow('no');
  expect([isTold, commits.durable < commits.changing]).toEqual([false, true]);
  await store.sync();
  expect(isTold).toBe(true);
});

test('no write is reported before it is on the disk, whatever the order of writes', async () => {
  const step = fc.record({
    writers: fc.integer({ min: 1, max: 3 }),
    isChange: fc.boolean(),
    durability: fc.constantFrom<Durability>('soon', 'soon', 'durable'),
    restMs: fc.constantFrom(0, 0, 0, 5, 25),
  });
  const { store, commits, write } = await open();
  let told = 0;
  let asked = 0;
  const ask = async (isChange: boolean, durability: Durability): Promise<void> => {
    await write(isChange ? change : nothing, durability);
    const { changing } = commits;
    asked += 1;
    store.onDurable(() => {
      told += 1;
      expect(commits.durable).toBeGreaterThanOrEqual(changing);
    });
  };
  const property = fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
    for (const { writers, isChange, durability, restMs } of steps) {
      const asks = Array.from({ length: writers }, (_, n) => ask(isChange || n === 1, durability));
      await Promise.all(asks);
      await sleep(restMs);
    }
  });
  await fc.assert(property, { numRuns: 40 });
  await store.sync();
  expect(told).toBe(asked);
});

test('many writes share one wait for the disk', async () => {
  const { store, commits, write } = await open();
  const before = { ...commits };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: 200 }, () => write()));
  await store.sync();
  const most = 2 + (performance.now() - startedAt) / 20;
  expect(commits.changing - before.changing).toBeGreaterThanOrEqual(200);
  expect(commits.waits - before.waits).toBeLessThanOrEqual(most);
});

test('the reserve is of bytes that really take room, and nobody else’s', () => {
  const state = makeStateOf(makeTemporaryRoot());
  keepReserve(state);
  const { size, blocks, mode } = statSync(state.reserve);
  expect({ size, mode: mode & 0o777 }).toEqual({ size: 262_144, mode: 0o600 });
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  expect(gzipSync(readFileSync(state.reserve)).length).toBeGreaterThan(size * 0.99);
});

test('a reserve that is there stays as it is; one that was cut off is made whole', () => {
  const state = makeStateOf(makeTemporaryRoot());
  keepReserve(state);
  const before = readFileSync(state.reserve);
  keepReserve(state);
  expect(readFileSync(state.reserve).equals(before)).toBe(true);
  writeFileSync(state.reserve, 'short');
  keepReserve(state);
  expect(statSync(state.reserve).size).toBe(262_144);
});

test('giving it up says whether there was something to give up', () => {
  const state = makeStateOf(makeTemporaryRoot());
  expect(releaseReserve(state)).toBe(false);
  keepReserve(state);
  expect(releaseReserve(state)).toBe(true);
  expect(existsSync(state.reserve)).toBe(false);
});

test('where it cannot be made, nothing is thrown and nothing half made stays', () => {
  const missing = stateFolderOf(makeTemporaryRoot());
  keepReserve(missing);
  expect(existsSync(missing.path)).toBe(false);
  const state = makeStateOf(makeTemporaryRoot());
  mkdirSync(state.reserve);
  keepReserve(state);
  expect(releaseReserve(state)).toBe(false);
});

const folder = stateFolderAt('/home/me/site/.runner');
const withCode = (code: string, message = 'as the system says'): Error => Object.assign(new Error(message), { code });

test.each([
  ['SQLITE_BUSY', 'locked'],
  ['SQLITE_BUSY_SNAPSHOT', 'locked'],
  ['SQLITE_LOCKED', 'locked'],
  ['SQLITE_PROTOCOL', 'locked'],
  ['SQLITE_FULL', 'full'],
  ['ENOSPC', 'full'],
  ['EDQUOT', 'full'],
  ['SQLITE_READONLY', 'read-only'],
  ['SQLITE_READONLY_DBMOVED', 'read-only'],
  ['EACCES', 'read-only'],
  ['EROFS', 'read-only'],
  ['SQLITE_CORRUPT', 'broken'],
  ['SQLITE_CORRUPT_INDEX', 'broken'],
  ['SQLITE_NOTADB', 'broken'],
  ['SQLITE_IOERR_WRITE', 'io'],
  ['SQLITE_CANTOPEN', 'io'],
  ['SQLITE_NOMEM', 'io'],
  ['EIO', 'io'],
  ['ERR_NO_SQLITE', 'no-driver'],
  ['SQLITE_ERROR', 'changed'],
  ['SQLITE_CONSTRAINT_TRIGGER', 'changed'],
  ['SQLITE_CONSTRAINT_UNIQUE', null],
  ['SQLITE_MISUSE', null],
  ['ERR_INVALID_ARG_TYPE', null],
])('%s is a failure of the kind %s', (code, kind) => {
  expect(kindOfStoreFailure(withCode(code))).toBe(kind);
  expect(isStoreFailure(withCode(code))).toBe(kind !== null);
  expect(isCorruption(withCode(code))).toBe(kind === 'broken');
});

test.each([
  ['SQLITE_FULL', true],
  ['SQLITE_IOERR_WRITE', true],
  ['SQLITE_IOERR_SHMSIZE', true],
  ['SQLITE_CANTOPEN', true],
  ['EDQUOT', true],
  ['SQLITE_IOERR_READ', false],
  ['SQLITE_BUSY', false],
  ['SQLITE_CORRUPT', false],
])('%s may be for want of room: %s', (code, expected) => {
  expect(mayBeFull(withCode(code))).toBe(expected);
});

test('an error other than the system’s is no failure of the store', () => {
  for (const thrown of [new TypeError('a defect'), 'SQLITE_BUSY', null, undefined, { code: 'EIO' }]) {
    expect(isStoreFailure(thrown)).toBe(false);
  }
  expect(isStoreFailure(new StoreUnavailable('foreign', 'It is not ours.'))).toBe(true);
});

test.each([
  [
    'SQLITE_BUSY',
    '/home/me/site/.runner/activity.db stays locked by another program (as the system says). If that lasts, ' +
      'end the program: `fuser -v /home/me/site/.runner/activity.db` names it.',
  ],
  [
    'EROFS',
    '/home/me/site/.runner/activity.db cannot be written (as the system says). Make it and its folder ' +
      'writable for the user that cron runs the runner as.',
  ],
  [
    'SQLITE_READONLY_DBMOVED',
    '/home/me/site/.runner/activity.db was moved away while it was in use. The next pass uses the log ' +
      'that exists then.',
  ],
  [
    'SQLITE_FULL',
    'No space left for /home/me/site/.runner/activity.db (as the system says): the disk is full, or your ' +
      'quota is used up. Delete files that you do not need.',
  ],
  [
    'SQLITE_CORRUPT',
    '/home/me/site/.runner/activity.db seems to be damaged (as the system says). The next pass checks it: a damaged file is kept under another name, and a new log is created.',
  ],
  [
    'SQLITE_IOERR_READ',
    '/home/me/site/.runner/activity.db cannot be used (as the system says). Check the disk it is on, your ' +
      'quota, and the owner and mode of the file and its folder.',
  ],
])('%s is told with its cure', (code, sentence) => {
  expect(describeStoreFailure(withCode(code), folder)).toBe(sentence);
});

test('a failure that is reported again has the same words', () => {
  expect(describeStoreFailure(new StoreUnavailable('io', 'So it is.'), folder)).toBe('So it is.');
});

interface Wake {
  readonly laterMs: number;
  readonly hasFound?: true;
}

/** What is to be rested after each of these wake-ups. */
function restsOf(wakes: readonly Wake[]): number[] {
  let nowMs = 0;
  const pace = createWakePace(() => nowMs);
  return wakes.map(({ laterMs, hasFound }) => {
    nowMs += laterMs;
    pace.noteWake();
    if (hasFound) pace.noteFound();
    return pace.restMs();
  });
}

const repeat = (count: number, wake: Wake) => Array.from({ length: count }, () => wake);

test('a consumer that is woken for nothing again and again rests longer and longer, up to a limit', () => {
  const rests = restsOf(repeat(40, { laterMs: 1 }));
  expect(rests.slice(0, 8)).toEqual(Array(8).fill(0));
  expect(rests.slice(8, 11)).toEqual([1, 2, 3]);
  expect(rests.at(-1)).toBe(20);
});

test.each([
  ['who finds something never rests', repeat(40, { laterMs: 1, hasFound: true })],
  ['wake-ups with quiet between them are no burden', repeat(40, { laterMs: 100 })],
])('%s', (_, wakes) => {
  expect(new Set(restsOf(wakes))).toEqual(new Set([0]));
});

test('a consumer that finds something after a long time of nothing rests for the shortest time again', () => {
  const rests = restsOf([...repeat(20, { laterMs: 1 }), { laterMs: 1, hasFound: true }, { laterMs: 1 }]);
  expect(rests.slice(-3)).toEqual([12, 0, 0]);
});
