import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { readExternalDatabase } from '../../../src/store/external/external-database.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { startNode } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf, openSqliteOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const FILL = "create table t (x); insert into t values ('one'), (9007199254740993)";

type Journal = 'wal' | 'delete';

function makeFile(journal: Journal): { readonly folder: string; readonly path: string } {
  const folder = join(makeTemporaryRoot(), 'theirs');
  mkdirSync(folder);
  const path = join(folder, 'a b#?.db');
  const database = new Database(path);
  database.pragma(`journal_mode = ${journal}`);
  database.exec(FILL);
  database.close();
  return { folder, path };
}

/** A program that has the file open all the while. */
async function use(path: string, journal: Journal, statements: string): Promise<void> {
  const ready = join(makeTemporaryRoot(), 'ready');
  const child = new URL('external-database.child.ts', import.meta.url).pathname;
  const started = startNode([child, path, journal, statements, ready]);
  const ended = started.ended.then(({ stderr }) => stderr);
  await until('the other program has the file', () => existsSync(ready));
  void ended;
}

const hash = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

describe.each(drivers)('with %s', (_name, driver) => {
  const read = (path: string, busyTimeoutMs = 100): Promise<unknown[]> =>
    readExternalDatabase(
      path,
      async (database) => [...database.select('select cast(x as text) as x from t')].map(({ x }) => x),
      { driver, busyTimeoutMs },
    );

  test.each(['wal', 'delete'] as const)('a file in mode %s is read, and left as it is', async (mode) => {
    const { folder, path } = makeFile(mode);
    const before = hash(path);
    chmodSync(path, 0o444);
    expect(await read(path)).toEqual(['one', '9007199254740993']);
    expect(hash(path)).toBe(before);
    expect(readdirSync(folder)).toEqual(['a b#?.db']);
  });

  test.each(['', '-journal', '-wal', '-shm'])(
    'a named pipe in the place of its file %j is named, and not waited for',
    async (suffix) => {
      const { path } = makeFile('delete');
      rmSync(path + suffix, { force: true });
      execFileSync('mkfifo', [path + suffix]);
      const error = await read(path).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UsageError);
      expect((error as Error).message).toContain(`${path}${suffix} is a named pipe, a socket or a device`);
    },
  );

  test('what another program has written and still keeps in its journal is read', async () => {
    const { path } = makeFile('wal');
    await use(path, 'wal', "insert into t values ('two')");
    const before = [hash(path), hash(`${path}-wal`)];
    expect(await read(path)).toEqual(['one', '9007199254740993', 'two']);
    expect([hash(path), hash(`${path}-wal`)]).toEqual(before);
  });

  test('what another program has not committed is not', async () => {
    const { path } = makeFile('wal');
    await use(path, 'wal', "begin immediate; insert into t values ('two')");
    expect(await read(path)).toEqual(['one', '9007199254740993']);
  });

  test('a file that stays locked is told', async () => {
    const { path } = makeFile('delete');
    await use(path, 'delete', "begin exclusive; insert into t values ('two')");
    await expect(read(path)).rejects.toThrow(`${path} stays locked; stop the programs that use it`);
  });

  test('a file that is written to, although nobody seemed to, is told', async () => {
    const { path } = makeFile('wal');
    const reading = readExternalDatabase(path, async () => await use(path, 'wal', "insert into t values ('two')"), {
      driver,
    });
    await expect(reading).rejects.toThrow(`${path} was written to while it was read`);
  });

  test('all is of one moment', async () => {
    const { path } = makeFile('wal');
    await use(path, 'wal', "insert into t values ('two')");
    const counts = await readExternalDatabase(
      path,
      async (database) => {
        const count = () => [...database.select('select count(*) as n from t')][0]?.n;
        const before = count();
        await use(path, 'wal', "insert into t values ('three')");
        return [before, count()];
      },
      { driver },
    );
    expect(counts).toEqual([3, 3]);
    expect(await read(path)).toHaveLength(4);
  });

  test('nothing can be written to it', async () => {
    for (const mode of ['wal', 'delete'] as const) {
      const { path } = makeFile(mode);
      const writing = readExternalDatabase(
        path,
        async (database) => [...database.select("insert into t values ('mine') returning x")],
        { driver },
      );
      await expect(writing).rejects.toThrow(/readonly database/);
    }
  });

  test('the columns of a table are named, none of what is not there, and a view is refused', async () => {
    const { path } = makeFile('delete');
    const database = new Database(path);
    database.exec(`create view "it's" as select x, x as y from t`);
    database.close();
    const columns = await readExternalDatabase(
      path,
      async (foreign) => ['t', 'T', 'nothing'].map((table) => foreign.columnsOf(table)),
      { driver },
    );
    expect(columns).toEqual([['x'], ['x'], []]);
    const view = readExternalDatabase(path, async (foreign) => foreign.columnsOf("it's"), { driver });
    await expect(view).rejects.toThrow(/^it's in .* is a view, a virtual table or one with computed columns/);
  });

  test.each([
    ['nothing', () => {}, /does not exist; check its name \(ENOENT/],
    ['a folder', (path: string) => mkdirSync(path), /is a folder; name the SQLite file in it/],
    [
      'text',
      (path: string) => writeFileSync(path, 'create table'.repeat(50)),
      /not an SQLite database; name the file of the queue\.$/,
    ],
    [
      'an empty file',
      (path: string) => writeFileSync(path, ''),
      /is not an SQLite database; name the file of the queue\.$/,
    ],
    [
      'half a file',
      (path: string) => writeFileSync(path, readFileSync(makeFile('delete').path).subarray(0, 5000)),
      /is damaged/,
    ],
  ])('%s is told in one sentence', async (_what, make, message) => {
    const path = join(makeTemporaryRoot(), 'x.db');
    make(path);
    await expect(read(path)).rejects.toThrow(message);
    await expect(read(path)).rejects.toMatchObject({ name: 'UsageError' });
  });
});

test('the activity log itself is no queue of another system', async () => {
  const root = makeTemporaryRoot();
  await (await openSqliteOf(root)).close();
  const { database } = makeStateOf(root);
  await expect(readExternalDatabase(database, async () => 0)).rejects.toThrow(
    `${database} is an activity log of this runner`,
  );
});
