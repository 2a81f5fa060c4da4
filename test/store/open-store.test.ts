import { existsSync, readdirSync, statSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { StoreUnavailable } from '../../src/store/failures.ts';
import { SCHEMA_VERSION } from '../../src/store/schema.ts';
import { APPLICATION_ID } from '../../src/store/sqlite/file.ts';
import { migrations } from '../../src/store/sqlite/migrations.ts';
import { openExistingStore, openStore } from '../../src/store/sqlite/open.ts';

import { queryLog } from '../support/open-log.ts';
import { startNode, startProcess } from '../support/start-command.ts';
import { makeStateOf, openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

const openAndClose = new URL('open-and-close.child.ts', import.meta.url).pathname;
const addJobs = new URL('add-jobs.child.ts', import.meta.url).pathname;

async function readPragma(root: string, pragma: string): Promise<unknown> {
  const { db } = await openStoreOf(root);
  const { rows } = await sql.raw<Record<string, unknown>>(`pragma ${pragma}`).execute(db);
  return Object.values(rows[0] ?? {})[0];
}

test('eight processes that open a missing log in the same moment make it once', async () => {
  const root = makeTemporaryRoot();
  makeStateOf(root);
  const children = Array.from({ length: 8 }, () => startNode([openAndClose, root, '8']));
  const ended = await Promise.all(children.map((child) => child.ended));
  for (const end of ended) {
    expect(end).toEqual({ status: 0, stdout: 'opened, 0 workers\n', stderr: '' });
  }
  expect(queryLog(root, 'select name from kysely_migration')).toEqual([
    { name: '0001-activity-log' },
  ]);
  expect(queryLog(root, 'pragma user_version')).toEqual([{ user_version: SCHEMA_VERSION }]);
  expect(queryLog(root, 'pragma application_id')).toEqual([{ application_id: APPLICATION_ID }]);
  expect(queryLog(root, 'pragma auto_vacuum')).toEqual([{ auto_vacuum: 2 }]);
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});

test('three writers and a reader in the same moment lose no row', async () => {
  const root = makeTemporaryRoot();
  const store = await openStoreOf(root);
  const writers = ['15min', 'hourly', 'daily'].map((tier) =>
    startNode([addJobs, root, tier, '40']),
  );
  let isWriting = true;
  const ended = Promise.all(writers.map((writer) => writer.ended)).finally(() => {
    isWriting = false;
  });
  const seen: number[] = [];
  while (isWriting) {
    const jobs = await store.db.selectFrom('jobs').select('id').execute();
    const activity = await store.db.selectFrom('activity').select('id').execute();
    // Read one after the other: what was added between the two looks is in the second one only.
    expect(activity.length).toBeGreaterThanOrEqual(jobs.length);
    seen.push(jobs.length);
    await new Promise(setImmediate);
  }
  for (const end of await ended) expect(end).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(seen).toEqual(seen.toSorted((one, other) => one - other));
  const perTier = 'select tier, count(*) as jobs from jobs group by tier order by tier';
  expect(queryLog(root, perTier)).toEqual(
    ['15min', 'daily', 'hourly'].map((tier) => ({ tier, jobs: 40 })),
  );
  expect(queryLog(root, 'select count(*) as activities from activity')).toEqual([
    { activities: 120 },
  ]);
});

test('nobody else can read the log, even under umask 000', async () => {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  const command = `umask 000; exec "${process.execPath}" "${openAndClose}" "${root}"`;
  const end = await startProcess('/bin/sh', ['-c', command], { cwd: '/', env: {} }).ended;
  expect(end.stderr).toBe('');
  const store = await openStoreOf(root);
  await store.db.deleteFrom('jobs').execute();
  const files = readdirSync(state.path).filter((name) => name.startsWith('activity.db'));
  expect(files).toContain('activity.db-wal');
  for (const name of files) {
    expect([name, statSync(`${state.path}/${name}`).mode & 0o777]).toEqual([name, 0o600]);
  }
});

test('the number of migrations is the schema version that the file carries', async () => {
  const root = makeTemporaryRoot();
  await openStoreOf(root);
  expect(Object.keys(migrations)).toHaveLength(SCHEMA_VERSION);
  expect(Object.keys(migrations)).toEqual(Object.keys(migrations).toSorted());
  expect(await readPragma(root, 'user_version')).toBe(SCHEMA_VERSION);
});

test('each connection writes durably, to a WAL, with its references checked', async () => {
  const root = makeTemporaryRoot();
  for (const opened of ['made', 'found']) {
    const pragmas = {
      opened,
      journal: await readPragma(root, 'journal_mode'),
      synchronous: await readPragma(root, 'synchronous'),
      foreignKeys: await readPragma(root, 'foreign_keys'),
      busyTimeout: await readPragma(root, 'busy_timeout'),
    };
    expect(pragmas).toEqual({
      opened,
      journal: 'wal',
      synchronous: 2,
      foreignKeys: 1,
      busyTimeout: 10,
    });
  }
});

test('a log in another journal mode is brought to the one of its file system', async () => {
  const root = makeTemporaryRoot();
  const first = await openStore(makeStateOf(root));
  await sql.raw('pragma journal_mode = delete').execute(first.db);
  await first.close();
  expect(await readPragma(root, 'journal_mode')).toBe('wal');
});

test('closing leaves one file', async () => {
  const root = makeTemporaryRoot();
  const store = await openStore(makeStateOf(root));
  await store.close();
  const files = readdirSync(`${root}/.runner`).filter((name) => name.startsWith('activity.db'));
  expect(files).toEqual(['activity.db']);
});

test('a log that was not finished being made is finished', async () => {
  const root = makeTemporaryRoot();
  const store = await openStore(makeStateOf(root));
  await sql.raw('pragma user_version = 0').execute(store.db);
  await store.close();
  expect(await readPragma(root, 'user_version')).toBe(SCHEMA_VERSION);
  expect(queryLog(root, 'select name from kysely_migration')).toHaveLength(1);
});

test('another program’s database is refused in one sentence and left alone', async () => {
  const state = makeStateOf(makeTemporaryRoot());
  const foreign = new Sqlite(state.database);
  foreign.exec('create table posts (id integer primary key)');
  foreign.close();
  const refused = openStore(state);
  await expect(refused).rejects.toThrow(StoreUnavailable);
  await expect(refused).rejects.toThrow(
    `${state.database} is not an activity log: another program created it. Move it away; then a new log is created.`,
  );
  const after = new Sqlite(state.database, { readonly: true });
  expect(after.prepare('select name from sqlite_master').all()).toEqual([{ name: 'posts' }]);
  expect(after.pragma('journal_mode', { simple: true })).toBe('delete');
  after.close();
});

test('a database without tables, but marked as another program’s, is refused', async () => {
  const state = makeStateOf(makeTemporaryRoot());
  const foreign = new Sqlite(state.database);
  foreign.pragma('application_id = 1196444487');
  foreign.close();
  await expect(openStore(state)).rejects.toThrow(/^\S+ is not an activity log: another program/);
});

test('a log of a newer runner is refused, naming both schemas and the cure', async () => {
  const state = makeStateOf(makeTemporaryRoot());
  const store = await openStore(state);
  await sql.raw('pragma user_version = 42').execute(store.db);
  await store.close();
  const refused = openStore(state);
  await expect(refused).rejects.toThrow(StoreUnavailable);
  await expect(refused).rejects.toThrow(
    `${state.database} was written by a newer runner (schema 42, this one knows ${SCHEMA_VERSION}). ` +
      'Update the package with `npm install folder-runner@latest`.',
  );
});

test('reading makes no log where there is none', async () => {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  expect(await openExistingStore(state)).toBeNull();
  expect(existsSync(state.database)).toBe(false);
  await openStoreOf(root);
  const store = await openExistingStore(state);
  expect(store).not.toBeNull();
  await store?.close();
});

test('what is written without sync leaves the connection durable again, even when it fails', async () => {
  const root = makeTemporaryRoot();
  const store = await openStoreOf(root);
  const readSynchronous = async (db: typeof store.db): Promise<unknown> => {
    const { rows } = await sql.raw<{ synchronous: number }>('pragma synchronous').execute(db);
    return rows[0]?.synchronous;
  };
  expect(await store.withoutSync(readSynchronous)).toBe(1);
  expect(await readSynchronous(store.db)).toBe(2);
  const failing = store.withoutSync(async () => {
    throw new Error('in the middle');
  });
  await expect(failing).rejects.toThrow('in the middle');
  expect(await readSynchronous(store.db)).toBe(2);
});

test('a rollback journal is always synced: without, a power loss could break the file', async () => {
  const root = makeTemporaryRoot();
  const store = await openStoreOf(root);
  await sql.raw('pragma journal_mode = truncate').execute(store.db);
  const { rows } = await store.withoutSync((db) =>
    sql.raw<{ synchronous: number }>('pragma synchronous').execute(db),
  );
  expect(rows).toEqual([{ synchronous: 2 }]);
});
