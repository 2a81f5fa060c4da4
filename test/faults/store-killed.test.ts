import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { SCHEMA_VERSION } from '../../src/store/schema.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';
import type { StateFolder } from '../../src/system/place/state-folder.ts';
import { startNode } from '../support/command.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { checkIntegrity, makeOldLog, makeStateOf } from '../support/store.ts';

const child = new URL('store-killed.child.ts', import.meta.url).pathname;
const GARBAGE = 'Dear diary, today nothing happened. '.repeat(1000);

async function openIn(root: string, killedBefore: string) {
  return await startNode([child, root, killedBefore]).ended;
}

async function openAgain(folder: StateFolder): Promise<SqliteStore> {
  const store = await openSqliteStore(folder);
  onTestFinished(() => store.close());
  expect(await checkIntegrity(store)).toEqual([]);
  return store;
}

test('the steps that a process can be killed before are there', async () => {
  const root = makeTemporaryRoot();
  makeStateOf(root);
  expect(await openIn(root, 'no such step')).toEqual({ status: 0, stdout: 'opened \n', stderr: '' });
});

test.each([
  ['in the middle of a migration', 'create table runs'],
  ['between a migration and the note of it', 'pragma user_version ='],
  ['at the end of a migration', '^commit$'],
])('killed %s, the next one finishes it', async (_when, step) => {
  const root = makeTemporaryRoot();
  const folder = makeStateOf(root);
  makeOldLog(folder);
  expect(await openIn(root, step)).toEqual({ status: null, stdout: '', stderr: '' });
  const store = await openAgain(folder);
  expect(store.quarantined).toBeNull();
  expect(queryLog(root, 'pragma user_version')).toEqual([{ user_version: SCHEMA_VERSION }]);
  expect(queryLog(root, 'select * from runs')).toEqual([]);
});

test.each([
  ['while it makes the log', 'create table jobs'],
  ['before the log is closed', 'close .*activity\\.new'],
  ['before the log is on the disk', 'fsyncSync'],
  ['before the log has its name', 'renameSync \\S+activity\\.new '],
])('killed %s, nothing is there, and the next one makes it', async (_when, step) => {
  const root = makeTemporaryRoot();
  const folder = makeStateOf(root);
  expect(await openIn(root, step)).toEqual({ status: null, stdout: '', stderr: '' });
  const names = () => readdirSync(folder.path).filter((name) => name.startsWith('activity'));
  expect(names()).not.toContain('activity.db');
  const store = await openAgain(folder);
  expect(store.quarantined).toBeNull();
  await store.close();
  expect(names().toSorted()).toEqual(['activity.db', 'activity.lock']);
});

test.each([
  ['before the new log is made', 'create table jobs'],
  ['before the broken log is moved', 'renameSync \\S+activity\\.db '],
  ['when the log is moved and its journal is not', 'renameSync \\S+activity\\.db-wal '],
  ['before the new log has its name', 'renameSync \\S+activity\\.new '],
])('killed %s, all that there was is kept', async (_when, step) => {
  const root = makeTemporaryRoot();
  const folder = makeStateOf(root);
  writeFileSync(folder.database, GARBAGE);
  writeFileSync(`${folder.database}-wal`, `${GARBAGE} of the journal`);
  expect(await openIn(root, step)).toEqual({ status: null, stdout: '', stderr: '' });
  const store = await openAgain(folder);
  await store.close();
  const kept = readdirSync(folder.path)
    .filter((name) => name.includes('.broken-') && !name.endsWith('-shm'))
    .map((name) => readFileSync(`${folder.path}/${name}`, 'utf8'));
  expect(kept.toSorted()).toEqual([GARBAGE, `${GARBAGE} of the journal`]);
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});
