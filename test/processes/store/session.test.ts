import type * as fs from 'node:fs';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { RunStart } from '../../../src/store/shared/run-rows.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import type { StoreSession } from '../../../src/store/store.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf, withJournal } from '../../support/store.ts';
import { until } from '../../support/until.ts';

/** What is asked of the disk. Syncs that are held end when they are let go. */
const disk = vi.hoisted(() => ({ syncs: 0, isBroken: false, held: null as (() => void)[] | null }));

vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>();
  const fail = () => Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
  return {
    ...real,
    fdatasync: (fd: number, callback: fs.NoParamCallback): void => {
      if (disk.isBroken) return void setImmediate(() => callback(fail()));
      real.fdatasync(fd, (error) => {
        disk.syncs += 1;
        if (disk.held === null) callback(error);
        else disk.held.push(() => callback(error));
      });
    },
  };
});

beforeEach(() => void Object.assign(disk, { syncs: 0, isBroken: false, held: null }));

const record = ({ events }: StoreSession, at: number): Promise<void> => events.record([{ at, event: 'paused' }]);

const readInstants = ({ connection }: Pick<SqliteStore, 'connection'>): number[] =>
  (connection.prepare('select at from events order by id').all([]) as { at: number }[]).map(({ at }) => at);

describe.each(drivers)('with %s', (_name, driver) => {
  async function open(): Promise<SqliteStore> {
    const store = await openSqliteStore(makeStateOf(makeTemporaryRoot()), { driver });
    onTestFinished(() => store.close());
    return store;
  }

  test('transactions and statements of one process take turns, in the order in which they were asked', async () => {
    const store = await open();
    const slow = store.transaction(async (session) => {
      await record(session, 1);
      await sleep(30);
      await record(session, 2);
    });
    const alone = record(store, 3);
    const next = store.transaction((session) => record(session, 4));
    const asked = store.events.newestAt();
    await Promise.all([slow, alone, next]);
    expect(readInstants(store)).toEqual([1, 2, 3, 4]);
    expect(await asked).toBe(4);
  });

  test('one that fails is undone whole, and those behind it go on', async () => {
    const store = await open();
    const failing = store.transaction(async (session) => {
      await record(session, 1);
      throw new Error('in the middle');
    });
    const next = store.transaction((session) => record(session, 2));
    await expect(failing).rejects.toThrow('in the middle');
    await next;
    expect(readInstants(store)).toEqual([2]);
  });

  test('what was remembered of a transaction that was undone is forgotten', async () => {
    const store = await open();
    store.connection.exec(`insert into jobs (name) values ('a')`);
    const start: RunStart = {
      ...{ jobId: 1, workerId: null, key: null, script: 'queue/a', contentHash: 'ab', attempt: 1 },
      ...{ scheduledFor: null, startedAt: 1, timeoutMs: null },
    };
    const end = (session: StoreSession) =>
      session.runs.end([{ ...start, runId: null, end: makeFinishedRun(), leftJob: null }]);
    const failing = store.transaction(async (session) => {
      await end(session);
      throw new Error('in the middle');
    });
    await expect(failing).rejects.toThrow('in the middle');
    await store.transaction(end);
    const known = `select name, content_hash from runs join scripts on scripts.id = runs.script_id
      join script_versions on script_versions.id = version_id`;
    expect(store.connection.prepare(known).all([])).toEqual([{ name: 'queue/a', content_hash: 'ab' }]);
  });

  test('what is to be durable soon is seen by others at once, and on the disk soon, by itself', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    const [store, other] = [await openSqliteStore(folder, { driver }), await openSqliteStore(folder, { driver })];
    onTestFinished(() => other.close().then(() => store.close()));
    for (const write of [() => store.transaction((session) => record(session, 1), 'soon'), () => record(store, 2)]) {
      const before = disk.syncs;
      await write();
      let isDurable = false;
      store.onDurable(() => {
        isDurable = true;
      });
      expect([isDurable, disk.syncs]).toEqual([false, before]);
      expect(readInstants(other)).toEqual(readInstants(store));
      await until('it is durable', () => isDurable);
      expect(disk.syncs).toBe(before + 1);
    }
  });

  test('closing has all of it on the disk, by SQLite itself unless others have it open', async () => {
    for (const isOpenElsewhere of [false, true]) {
      const folder = makeStateOf(makeTemporaryRoot());
      const store = await openSqliteStore(folder, { driver });
      const other = isOpenElsewhere ? await openSqliteStore(folder, { driver }) : null;
      const before = disk.syncs;
      await store.transaction((session) => record(session, 1), 'soon');
      const told: string[] = [];
      store.onDurable((failure) => told.push(failure === null ? 'durable' : 'lost'));
      await store.close();
      expect([told, disk.syncs - before]).toEqual([['durable'], isOpenElsewhere ? 1 : 0]);
      expect(existsSync(`${folder.database}-wal`)).toBe(isOpenElsewhere);
      await other?.close();
    }
  });

  test('a sync that fails is final: all who wait are told, later ones are refused, and no later success counts', async () => {
    const store = await open();
    disk.isBroken = true;
    const told: unknown[] = [];
    const tell = (failure: unknown) => void told.push(failure);
    for (const at of [1, 2]) {
      await store.transaction((session) => record(session, at), 'soon');
      store.onDurable(tell);
    }
    await until('both are told', () => told.length === 2);
    disk.isBroken = false;
    store.onDurable(tell);
    const failure = { code: 'SQLITE_IOERR_FSYNC', message: expect.stringContaining('EIO') };
    expect(told).toEqual(Array(3).fill(expect.objectContaining(failure)));
    for (const durability of ['durable', 'soon'] as const) {
      await expect(store.transaction((session) => record(session, 3), durability)).rejects.toMatchObject(failure);
    }
    expect(readInstants(store)).toEqual([1, 2]);
    await expect(record(store, 4)).rejects.toMatchObject(failure);
    await expect(store.sync()).rejects.toMatchObject(failure);
    await expect(store.close()).rejects.toMatchObject(failure);
    await store.close();
    expect([told.length, disk.syncs]).toEqual([3, 0]);
    expect(() => store.connection.prepare('select 1')).toThrow();
  });

  test('a durable write whose own sync fails tells its caller, and those that share its wait', async () => {
    const store = await open();
    disk.isBroken = true;
    const told: unknown[] = [];
    const writes = [1, 2, 3].map((at) => store.transaction((session) => record(session, at)));
    store.onDurable((failure) => told.push(failure));
    const ends = await Promise.allSettled(writes);
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    disk.isBroken = false;
    await expect(store.transaction((session) => record(session, 4))).rejects.toMatchObject({
      code: 'SQLITE_IOERR_FSYNC',
    });
    expect(readInstants(store)).not.toContain(4);
    await expect(store.close()).rejects.toMatchObject({ code: 'SQLITE_IOERR_FSYNC' });
    expect(told).toEqual([null]);
  });

  test('while a durable write waits for the disk, others read and commit, and those commits share the next wait', async () => {
    const store = await open();
    const held: (() => void)[] = [];
    disk.held = held;
    const ended: number[] = [];
    const write = (at: number) => store.transaction((session) => record(session, at)).then(() => ended.push(at));
    const first = write(1);
    await until('the first sync is under way', () => held.length === 1);
    const others = [2, 3, 4].map(write);
    await until('the others are committed', () => readInstants(store).length === 4);
    expect(await store.events.newestAt()).toBe(4);
    // That sync began before their commits.
    expect([ended, disk.syncs]).toEqual([[], 1]);
    held.shift()?.();
    await first;
    await until('the next sync is under way', () => held.length === 1);
    expect([ended, disk.syncs]).toEqual([[1], 2]);
    disk.held = null;
    held.shift()?.();
    await Promise.all(others);
    expect([ended, disk.syncs]).toEqual([[1, 2, 3, 4], 2]);
  });

  test('with a rollback journal each commit waits for readers, and lets the process go on', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(folder, { driver: withJournal(driver, 'truncate') });
    onTestFinished(() => store.close());
    expect(store.connection.pragma('journal_mode')).toBe('truncate');
    for (const write of [() => store.transaction((session) => record(session, 1)), () => record(store, 2)]) {
      const reader = driver.open(folder.database, { timeoutMs: 0 });
      reader.exec('begin; select * from workers');
      reader.prepare('select count(*) from events').all([]);
      let isWritten = false;
      const written = write().then(() => {
        isWritten = true;
      });
      let ticks = 0;
      const timer = setInterval(() => (ticks += 1), 10);
      await until('time goes on', () => ticks > 10).finally(() => clearInterval(timer));
      expect(isWritten).toBe(false);
      reader.exec('commit');
      reader.close();
      await written;
    }
    expect(readInstants(store)).toEqual([1, 2]);
    // SQLite itself has seen to it.
    const told: string[] = [];
    store.onDurable(() => told.push('durable'));
    expect([told, disk.syncs]).toEqual([['durable'], 0]);
  });
});
