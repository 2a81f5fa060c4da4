import { readdirSync, renameSync, statSync } from 'node:fs';
import { sql } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import { recordActivity } from '../../src/store/events.ts';
import { isStoreFailure } from '../../src/store/failures.ts';
import { SCHEMA_VERSION } from '../../src/store/schema.ts';
import { backUp } from '../../src/store/sqlite/backup.ts';
import { APPLICATION_ID } from '../../src/store/sqlite/file.ts';
import { openStore } from '../../src/store/sqlite/open.ts';
import { keepReserve, releaseReserve } from '../../src/store/sqlite/reserve.ts';
import type { Database, Store } from '../../src/store/store.ts';

import { checkIntegrity } from '../support/check-integrity.ts';
import { drivers } from '../support/drivers.ts';
import { makeStateOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

async function readPragma(db: Database, pragma: string): Promise<unknown> {
  const { rows } = await sql.raw<Record<string, unknown>>(`pragma ${pragma}`).execute(db);
  return Object.values(rows[0] ?? {})[0];
}

const addEvent = (db: Database, detail = '') =>
  recordActivity(db, { at: 0, event: 'worker-started', detail });
const countEvents = async ({ db }: Store): Promise<number> =>
  (await db.selectFrom('activity').select('id').execute()).length;

describe.each(drivers)('with %s', (name, driver) => {
  const state = () => makeStateOf(makeTemporaryRoot());
  async function open(folder = state()): Promise<Store> {
    const store = await openStore(folder, { driver });
    onTestFinished(() => store.close());
    return store;
  }

  test('a log is made, durable, with its references checked', async () => {
    const folder = state();
    for (const opened of ['made', 'found']) {
      const store = await open(folder);
      const { db } = store;
      expect({
        opened,
        driver: store.driver,
        isReadOnly: store.isReadOnly,
        setAside: store.setAside,
        application: await readPragma(db, 'application_id'),
        version: await readPragma(db, 'user_version'),
        journal: await readPragma(db, 'journal_mode'),
        synchronous: await readPragma(db, 'synchronous'),
        foreignKeys: await readPragma(db, 'foreign_keys'),
        vacuum: await readPragma(db, 'auto_vacuum'),
        busyTimeout: await readPragma(db, 'busy_timeout'),
        problems: await checkIntegrity(store),
      }).toEqual({
        opened,
        driver: name,
        isReadOnly: false,
        setAside: null,
        application: APPLICATION_ID,
        version: SCHEMA_VERSION,
        journal: 'wal',
        synchronous: 2,
        foreignKeys: 1,
        vacuum: 2,
        busyTimeout: 10,
        problems: [],
      });
      await store.close();
    }
  });

  test('rows come back as they went in, with the ids that they got', async () => {
    const { db } = await open();
    const job = {
      name: 'hourly/ä',
      tier: null,
      state: 'queued',
      run_at: 1.7e12,
      created_at: 0,
    } as const;
    const { id } = await db
      .insertInto('jobs')
      .values(job)
      .returning('id')
      .executeTakeFirstOrThrow();
    const found = await db.selectFrom('jobs').selectAll().executeTakeFirstOrThrow();
    expect(found).toMatchObject({ id, ...job, finished_at: null });
    const { numUpdatedRows } = await db
      .updateTable('jobs')
      .set({ state: 'running' })
      .executeTakeFirst();
    expect(numUpdatedRows).toBe(1n);
  });

  test('a transaction is all or nothing', async () => {
    const store = await open();
    const failing = store.db.transaction().execute(async (transaction) => {
      await addEvent(transaction);
      throw new Error('in the middle');
    });
    await expect(failing).rejects.toThrow('in the middle');
    expect(await countEvents(store)).toBe(0);
    await store.db.transaction().execute((transaction) => addEvent(transaction));
    expect(await countEvents(store)).toBe(1);
  });

  test('what is refused is named as SQLite names it', async () => {
    const { db } = await open();
    const refused = sql
      .raw(`insert into jobs (name, state, run_at, created_at) values ('a', 'sleeping', 0, 0)`)
      .execute(db);
    await expect(refused).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_CHECK' });
  });

  test('what is written without sync leaves the connection durable again', async () => {
    const store = await open();
    expect(await store.withoutSync((db) => readPragma(db, 'synchronous'))).toBe(1);
    expect(await readPragma(store.db, 'synchronous')).toBe(2);
  });

  test('all the free pages asked for are given back', async () => {
    const store = await open();
    await addEvent(store.db, 'x'.repeat(1_000_000));
    await store.db.deleteFrom('activity').execute();
    expect(await readPragma(store.db, 'freelist_count')).toBeGreaterThan(200);
    store.giveBackPages(1_000);
    expect(await readPragma(store.db, 'freelist_count')).toBe(0);
  });

  test('a copy of the log stands alone', async () => {
    const folder = state();
    const store = await open(folder);
    await addEvent(store.db);
    const path = `${folder.path}/copy.db`;
    expect(await backUp(store, path)).toEqual({ path, bytes: statSync(path).size });
    const copy = await open({ ...folder, database: path });
    expect([await countEvents(copy), await checkIntegrity(copy)]).toEqual([1, []]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('closing leaves one file, and closing twice does no harm', async () => {
    const folder = state();
    const store = await open(folder);
    await addEvent(store.db);
    await store.close();
    await store.close();
    const files = readdirSync(folder.path).filter((file) => file.startsWith('activity.db'));
    expect(files).toEqual(['activity.db']);
  });

  test('a full disk is told as such, not as what came of it', async () => {
    const store = await open();
    await readPragma(store.db, `max_page_count = ${await readPragma(store.db, 'page_count')}`);
    const writing = store.db
      .transaction()
      .execute((transaction) => addEvent(transaction, 'x'.repeat(1_000_000)));
    await expect(writing).rejects.toMatchObject({ code: 'SQLITE_FULL' });
    expect(await countEvents(store)).toBe(0);
    await store.db.transaction().execute((transaction) => addEvent(transaction));
    expect(await countEvents(store)).toBe(1);
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
    await addEvent(store.db);
    for (const suffix of ['', '-wal', '-shm']) {
      renameSync(folder.database + suffix, `${folder.database}.away${suffix}`);
    }
    const fresh = await open(folder);
    await addEvent(fresh.db);
    const writing = store.db.transaction().execute((transaction) => addEvent(transaction));
    const error = await writing.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'SQLITE_READONLY_DBMOVED' });
    expect(isStoreFailure(error)).toBe(true);
    // SQLite, which closes it, must not take the new log's journal for that of the old one.
    await store.close();
    expect(readdirSync(folder.path)).toContain('activity.db-wal');
    expect(await countEvents(fresh)).toBe(1);
    expect(await checkIntegrity(fresh)).toEqual([]);
  });
});
