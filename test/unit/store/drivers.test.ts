import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isStoreFailure } from '../../../src/store/failures.ts';
import { SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { backUp } from '../../../src/store/sqlite/create.ts';
import {
  type Connection,
  type ConnectionOptions,
  type Driver,
  sqliteErrorName,
  withoutSqliteWarning,
} from '../../../src/store/sqlite/driver.ts';
import { APPLICATION_ID, chooseJournalMode } from '../../../src/store/sqlite/file.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import type { StoreSession } from '../../../src/store/store.ts';
import { keepReserve, releaseReserve } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { checkIntegrity, drivers, makeStateOf } from '../../support/store.ts';

function makeFile(): string {
  const path = join(makeTemporaryRoot(), 'test.db');
  writeFileSync(path, '');
  return path;
}

function open(driver: Driver, path: string, options: Partial<ConnectionOptions> = {}): Connection {
  const connection = driver.open(path, { timeoutMs: 0, ...options });
  onTestFinished(() => connection.close());
  return connection;
}

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
  return undefined;
}

describe.each(drivers)('%s', (name, driver) => {
  test('says who it is', () => {
    expect(driver.name).toBe(name);
    expect(open(driver, makeFile()).driver).toBe(name);
  });

  test('tells statements that answer with rows from those that do not', () => {
    const connection = open(driver, makeFile());
    connection.exec('create table t (a integer primary key, b)');
    const isReader = (text: string): boolean => connection.prepare(text).reader;
    expect(isReader('select 1')).toBe(true);
    expect(isReader('insert into t (b) values (1) returning a')).toBe(true);
    expect(isReader('pragma user_version')).toBe(true);
    expect(isReader('insert into t (b) values (1)')).toBe(false);
    expect(isReader('begin immediate')).toBe(false);
  });

  test('gives rows as plain objects, with numbers, texts and nulls', () => {
    const connection = open(driver, makeFile());
    connection.exec('create table t (a integer primary key, b text, c real, d integer) strict');
    const insert = connection.prepare('insert into t (b, c, d) values (?, ?, ?) returning *');
    const rows = insert.all(['ä€😀', 1.5, undefined]);
    expect(rows).toStrictEqual([{ a: 1, b: 'ä€😀', c: 1.5, d: null }]);
    expect([...connection.prepare('select c from t').iterate([])]).toStrictEqual([{ c: 1.5 }]);
  });

  test('rounds what is beyond the numbers of JavaScript, as it rounds when it is written', () => {
    const connection = open(driver, makeFile());
    const [row] = connection.prepare('select 9007199254740993 as large, 12 as small').all([]);
    expect(row).toStrictEqual({ large: 9_007_199_254_740_992, small: 12 });
  });

  test('says what a statement changed', () => {
    const connection = open(driver, makeFile());
    connection.exec('create table t (a integer primary key); insert into t values (1), (2)');
    const { changes } = connection.prepare('delete from t').run([]);
    expect(Number(changes)).toBe(2);
  });

  test('reads and sets pragmas', () => {
    const connection = open(driver, makeFile());
    expect(connection.pragma('user_version = 7')).toBeUndefined();
    expect(connection.pragma('user_version')).toBe(7);
    expect(connection.pragma('journal_mode = wal')).toBe('wal');
  });

  test('knows whether it is in a transaction, also when SQLite ended it', () => {
    const connection = open(driver, makeFile());
    connection.exec('create table t (a)');
    expect(connection.inTransaction).toBe(false);
    connection.exec('begin immediate');
    expect(connection.inTransaction).toBe(true);
    connection.pragma(`max_page_count = ${connection.pragma('page_count')}`);
    const insert = connection.prepare('insert into t values (?)');
    expect(codeOf(() => insert.run(['x'.repeat(100_000)]))).toBe('SQLITE_FULL');
    expect(connection.inTransaction).toBe(false);
  });

  test('names SQLite’s errors as SQLite does', () => {
    const path = makeFile();
    const connection = open(driver, path);
    connection.exec('create table t (a integer primary key, b text not null unique)');
    connection.exec(`insert into t values (1, 'x')`);
    const run = (text: string) => codeOf(() => connection.prepare(text).run([]));
    expect(run('nonsense')).toBe('SQLITE_ERROR');
    expect(run(`insert into t values (2, 'x')`)).toBe('SQLITE_CONSTRAINT_UNIQUE');
    expect(run('insert into t values (2, null)')).toBe('SQLITE_CONSTRAINT_NOTNULL');
    expect(run(`insert into t values (1, 'y')`)).toBe('SQLITE_CONSTRAINT_PRIMARYKEY');
    open(driver, path).exec('begin immediate');
    expect(run(`insert into t values (2, 'y')`)).toBe('SQLITE_BUSY');
    expect(codeOf(() => connection.exec('nonsense'))).toBe('SQLITE_ERROR');
  });

  test('waits for a lock as long as it was told to', () => {
    const path = makeFile();
    open(driver, path).exec('create table t (a); begin immediate');
    const waiting = open(driver, path, { timeoutMs: 300 });
    const start = performance.now();
    expect(codeOf(() => waiting.exec('begin immediate'))).toBe('SQLITE_BUSY');
    expect(performance.now() - start).toBeGreaterThan(250);
  });

  test('makes no file by opening one', () => {
    const path = join(makeTemporaryRoot(), 'missing.db');
    for (const access of ['read-write', 'read-only', 'immutable'] as const) {
      const read = () => open(driver, path, { access }).pragma('user_version');
      expect([access, codeOf(read)]).toEqual([access, 'SQLITE_CANTOPEN']);
      expect(existsSync(path)).toBe(false);
    }
  });

  test('finds a file of whatever name', () => {
    const path = join(makeTemporaryRoot(), 'a b%20c?mode=memory#d\'"ä.db');
    writeFileSync(path, '');
    open(driver, path).exec('create table t (a)');
    expect(readFileSync(path, 'latin1').startsWith('SQLite format 3')).toBe(true);
    const read = open(driver, path, { access: 'immutable' });
    expect(read.prepare('select count(*) as rows from t').all([])).toStrictEqual([{ rows: 0 }]);
  });

  test.each(['read-only', 'immutable'] as const)('does not write when it is %s', (access) => {
    const path = makeFile();
    open(driver, path).exec('create table t (a)');
    const reading = open(driver, path, { access });
    expect(codeOf(() => reading.exec('insert into t values (1)'))).toMatch(/^SQLITE_READONLY/);
  });

  test('is closed once, however often it is told to', () => {
    const connection = open(driver, makeFile());
    connection.close();
    connection.close();
    expect(() => connection.pragma('user_version')).toThrow(/not open/);
  });
});

test.each([
  ['better-sqlite3', 'node:sqlite'],
  ['node:sqlite', 'better-sqlite3'],
])('what %s wrote, %s reads', (writer, reader) => {
  const path = makeFile();
  const [writing, reading] = [writer, reader].map(
    (wanted) => drivers.find(([name]) => name === wanted)?.[1] as Driver,
  ) as [Driver, Driver];
  const first = writing.open(path, { timeoutMs: 0 });
  first.pragma('journal_mode = wal');
  first.exec(`create table t (a text) strict; insert into t values ('ä')`);
  first.close();
  const second = open(reading, path);
  expect(second.prepare('select a from t').all([])).toStrictEqual([{ a: 'ä' }]);
  expect(second.pragma('integrity_check')).toBe('ok');
});

test('only the warning of Node’s SQLite is kept back', () => {
  const { emitWarning } = process;
  const seen: unknown[] = [];
  process.emitWarning = (...warning: unknown[]) => void seen.push(warning);
  onTestFinished(() => {
    process.emitWarning = emitWarning;
  });
  const replaced = process.emitWarning;
  const loaded = withoutSqliteWarning(() => {
    const text = 'SQLite is an experimental feature and might change at any time';
    process.emitWarning(text, 'ExperimentalWarning');
    process.emitWarning('Something else', 'DeprecationWarning');
    return 'loaded';
  });
  expect(loaded).toBe('loaded');
  expect(seen).toEqual([['Something else', 'DeprecationWarning']]);
  expect(process.emitWarning).toBe(replaced);
});

test('every result code has the name that SQLite’s own header gives it', () => {
  const header = readFileSync(
    new URL('../../../node_modules/better-sqlite3/deps/sqlite3/sqlite3.h', import.meta.url),
    'utf8',
  );
  const primary = [...header.matchAll(/^#define (SQLITE_[A-Z]+) +(\d+) +\/\*/gm)]
    .map(([, name, code]) => [name as string, Number(code)] as const)
    .filter(([, code]) => code > 0 && code < 100);
  const codes = new Map(primary.filter(([name]) => sqliteErrorName(codeOfName(name)) === name));
  function codeOfName(name: string): number {
    return primary.find(([other]) => other === name)?.[1] as number;
  }
  expect(codes.size).toBeGreaterThanOrEqual(28);
  const extended = [...header.matchAll(/^#define (SQLITE_(\w+?)_\w+) +\((SQLITE_[A-Z]+) *\| *\((\d+)<<8\)\)/gm)].filter(
    ([, name]) => /_(BUSY|READONLY|IOERR|CORRUPT|CANTOPEN|CONSTRAINT|LOCKED)_/.test(name ?? ''),
  );
  expect(extended.length).toBeGreaterThan(60);
  for (const [, name, , family, shift] of extended) {
    const code = (codes.get(family as string) as number) | (Number(shift) << 8);
    expect([name, sqliteErrorName(code)]).toEqual([name, expect.stringContaining(family as string)]);
    if (!/_(BADKEY|CODEC)$/.test(name as string)) expect(sqliteErrorName(code)).toBe(name);
  }
});

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

  test('an error is named as SQLite names it', async () => {
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

  test('an error other than a full disk is not tried again', async () => {
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

test('a local disk gets a WAL', () => {
  expect(chooseJournalMode(makeTemporaryRoot())).toBe('wal');
});

test('a file system that is not known to be local gets a rollback journal', () => {
  expect(chooseJournalMode('/proc')).toBe('truncate');
});
