import { existsSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { StoreUnavailable } from '../../../src/store/failures.ts';
import { SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { findDriver } from '../../../src/store/sqlite/driver.ts';
import { APPLICATION_ID } from '../../../src/store/sqlite/file.ts';
import { openExistingSqliteStore, openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { startNode } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf, openSqliteOf, withJournal } from '../../support/store.ts';

const openAndClose = new URL('open-and-close.child.ts', import.meta.url).pathname;

async function readPragma(root: string, pragma: string): Promise<unknown> {
  return (await openSqliteOf(root)).connection.pragma(pragma);
}

test('eight processes that open a missing log in the same moment make it once', async () => {
  const root = makeTemporaryRoot();
  makeStateOf(root);
  const children = Array.from({ length: 8 }, () => startNode([openAndClose, root, '8']));
  const ended = await Promise.all(children.map((child) => child.ended));
  for (const end of ended) {
    expect(end).toEqual({ status: 0, stdout: 'opened, 0 workers\n', stderr: '' });
  }
  expect(queryLog(root, 'pragma user_version')).toEqual([{ user_version: SCHEMA_VERSION }]);
  expect(queryLog(root, 'pragma application_id')).toEqual([{ application_id: APPLICATION_ID }]);
  expect(queryLog(root, 'pragma auto_vacuum')).toEqual([{ auto_vacuum: 2 }]);
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});

test('a log in another journal mode is brought to the one of its file system', async () => {
  const root = makeTemporaryRoot();
  const first = await openSqliteStore(makeStateOf(root));
  first.connection.pragma('journal_mode = delete');
  await first.close();
  expect(await readPragma(root, 'journal_mode')).toBe('wal');
});

test('another program’s database is refused in one sentence and left alone', async () => {
  const state = makeStateOf(makeTemporaryRoot());
  const foreign = new Sqlite(state.database);
  foreign.exec('create table posts (id integer primary key)');
  foreign.close();
  const refused = openSqliteStore(state);
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
  await expect(openSqliteStore(state)).rejects.toThrow(/^\S+ is not an activity log: another program/);
});

test('a log of a newer runner is refused, naming both schemas and the cure', async () => {
  const state = makeStateOf(makeTemporaryRoot());
  const store = await openSqliteStore(state);
  store.connection.pragma('user_version = 42');
  await store.close();
  const refused = openSqliteStore(state);
  await expect(refused).rejects.toThrow(StoreUnavailable);
  await expect(refused).rejects.toThrow(
    `${state.database} was written by a newer runner (schema 42, this one knows ${SCHEMA_VERSION}). ` +
      'Update the package with `npm install folder-runner@latest`.',
  );
});

test('reading makes no log where there is none', async () => {
  const root = makeTemporaryRoot();
  const state = makeStateOf(root);
  expect(await openExistingSqliteStore(state)).toBeNull();
  expect(existsSync(state.database)).toBe(false);
  await openSqliteOf(root);
  const store = await openExistingSqliteStore(state);
  expect(store).not.toBeNull();
  await store?.close();
});

test('a rollback journal is always synced: without, a power loss could break the file', async () => {
  const folder = makeStateOf(makeTemporaryRoot());
  const { driver } = await findDriver();
  const store = await openSqliteStore(folder, { driver: withJournal(driver, 'truncate') });
  onTestFinished(() => store.close());
  expect(['journal_mode', 'synchronous'].map((name) => store.connection.pragma(name))).toEqual(['truncate', 2]);
});
