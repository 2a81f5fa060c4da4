import { readdirSync, renameSync, statSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isStoreFailure } from '../../../src/store/failures.ts';
import { SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { backUp } from '../../../src/store/sqlite/create.ts';
import { APPLICATION_ID } from '../../../src/store/sqlite/file.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { keepReserve, releaseReserve } from '../../../src/store/sqlite/reserve.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import type { StoreSession } from '../../../src/store/store.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { checkIntegrity, drivers, makeStateOf } from '../../support/store.ts';

const addEvent = ({ events }: StoreSession, detail = ''): Promise<void> =>
  events.record([{ at: 0, event: 'paused', detail }]);
const countEvents = ({ connection }: SqliteStore): number => connection.prepare('select id from events').all([]).length;

describe.each(drivers)('with %s', (name, driver) => {
  const state = () => makeStateOf(makeTemporaryRoot());
  async function open(folder = state()): Promise<SqliteStore> {
    const store = await openSqliteStore(folder, { driver });
    onTestFinished(() => store.close());
    return store;
  }

  test('a log is made, durable, with its references checked', async () => {
    const folder = state();
    for (const opened of ['made', 'found']) {
      const store = await open(folder);
      const { pragma } = store.connection;
      expect({
        opened,
        driver: store.driver,
        engine: store.engine,
        isReadOnly: store.isReadOnly,
        quarantined: store.quarantined,
        application: pragma('application_id'),
        version: pragma('user_version'),
        journal: pragma('journal_mode'),
        synchronous: pragma('synchronous'),
        foreignKeys: pragma('foreign_keys'),
        vacuum: pragma('auto_vacuum'),
        busyTimeout: pragma('busy_timeout'),
        problems: await checkIntegrity(store),
      }).toEqual({
        opened,
        driver: name,
        engine: 'sqlite',
        isReadOnly: false,
        quarantined: null,
        application: APPLICATION_ID,
        version: SCHEMA_VERSION,
        journal: 'wal',
        synchronous: 1,
        foreignKeys: 1,
        vacuum: 2,
        busyTimeout: 10,
        problems: [],
      });
      await store.close();
    }
  });

  test('rows come back as they went in, with the ids that they got', async () => {
    const store = await open();
    const job = { name: 'ä', state: 'queued', data: '{"ö":1}', run_at: 1.7e12 } as const;
    const text = 'insert into jobs (name, state, data, run_at) values (?, ?, ?, ?)';
    const { lastInsertRowid, changes } = store.connection
      .prepare(text)
      .run([job.name, job.state, job.data, job.run_at]);
    expect([Number(lastInsertRowid), Number(changes)]).toEqual([1, 1]);
    expect(await store.jobs.wholeById([1, 2])).toMatchObject([{ id: 1, ...job, finished_at: null }]);
    const found = (await store.queries()).selectFrom('jobs').selectAll();
    expect(await found.execute()).toMatchObject([{ id: 1, ...job, finished_at: null }]);
  });

  test('a transaction is all or nothing', async () => {
    const store = await open();
    const failing = store.transaction(async (session) => {
      await addEvent(session);
      throw new Error('in the middle');
    });
    await expect(failing).rejects.toThrow('in the middle');
    expect(countEvents(store)).toBe(0);
    await store.transaction((session) => addEvent(session));
    expect(countEvents(store)).toBe(1);
  });

  test('what is refused is named as SQLite names it', async () => {
    const { connection } = await open();
    const add = () => connection.exec(`insert into jobs (name, state) values ('a', 'sleeping')`);
    expect(add).toThrow(expect.objectContaining({ code: 'SQLITE_CONSTRAINT_CHECK' }));
  });

  test('all the free pages asked for are given back', async () => {
    const store = await open();
    const countFree = () => store.connection.pragma('freelist_count');
    await addEvent(store, 'x'.repeat(1_000_000));
    expect(await pruningOf(store.statements).events(1, 10)).toMatchObject({ deleted: 1 });
    const free = countFree() as number;
    expect(free).toBeGreaterThan(200);
    await store.shrink(100);
    expect(countFree()).toBe(free - 100);
    await store.shrink(1_000);
    expect(countFree()).toBe(0);
  });

  test('a copy of the log stands alone', async () => {
    const folder = state();
    const store = await open(folder);
    await addEvent(store);
    const path = `${folder.path}/copy.db`;
    expect(await backUp(store, path)).toEqual({ path, bytes: statSync(path).size });
    const copy = await open({ ...folder, database: path });
    expect([countEvents(copy), await checkIntegrity(copy)]).toEqual([1, []]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('closing leaves one file, and closing twice does no harm', async () => {
    const folder = state();
    const store = await open(folder);
    await addEvent(store);
    await store.close();
    await store.close();
    const files = readdirSync(folder.path).filter((file) => file.startsWith('activity.db'));
    expect(files).toEqual(['activity.db']);
  });

  test('a full disk is told as such, not as what came of it', async () => {
    const store = await open();
    const { pragma } = store.connection;
    pragma(`max_page_count = ${pragma('page_count')}`);
    const writing = store.transaction((session) => addEvent(session, 'x'.repeat(1_000_000)));
    await expect(writing).rejects.toMatchObject({ code: 'SQLITE_FULL' });
    expect(countEvents(store)).toBe(0);
    await store.transaction((session) => addEvent(session));
    expect(countEvents(store)).toBe(1);
  });

  test('on a full disk the reserve is given up, and the work is tried once more', async () => {
    const folder = state();
    const store = await open(folder);
    const full = () => Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }));
    await expect(store.retryWhenFull(full)).rejects.toThrow('full');
    keepReserve(folder);
    let tries = 0;
    const done = await store.retryWhenFull(async () => {
      tries += 1;
      return tries === 1 ? await full() : 'done';
    });
    expect([done, tries, releaseReserve(folder)]).toEqual(['done', 2, false]);
  });

  test('what is no matter of room is not tried again', async () => {
    const folder = state();
    const store = await open(folder);
    keepReserve(folder);
    let tries = 0;
    const failing = store.retryWhenFull(async () => {
      tries += 1;
      throw Object.assign(new Error('broken'), { code: 'SQLITE_CORRUPT' });
    });
    await expect(failing).rejects.toThrow('broken');
    expect([tries, releaseReserve(folder)]).toEqual([1, true]);
  });

  test('a log that was moved away is not written to any more', async () => {
    const folder = state();
    const store = await open(folder);
    await addEvent(store);
    for (const suffix of ['', '-wal', '-shm']) {
      renameSync(folder.database + suffix, `${folder.database}.away${suffix}`);
    }
    const fresh = await open(folder);
    await addEvent(fresh);
    const writing = store.transaction((session) => addEvent(session));
    const error = await writing.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'SQLITE_READONLY_DBMOVED' });
    expect(isStoreFailure(error)).toBe(true);
    // SQLite, which closes it, must not take the new log's journal for that of the old one.
    await store.close();
    expect(readdirSync(folder.path)).toContain('activity.db-wal');
    expect(countEvents(fresh)).toBe(1);
    expect(await checkIntegrity(fresh)).toEqual([]);
  });
});
