import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openExistingSqliteStore, openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { fallbackStateFoldersOf } from '../../../src/system/place/fallback.ts';
import { type StateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { diagnose } from '../../processes/doctor/doctor-place.ts';
import { cronEnv, runCommand, runPass } from '../../support/command.ts';
import { runWithFault } from '../../support/faults/faults.ts';
import { checkInvariants, nodeScript, shellScript } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf } from '../../support/store.ts';

const run = (program: string, ...args: readonly string[]): void => {
  execFileSync(program, args, { stdio: 'ignore' });
};

/** Nothing in the folder can be written any more, also not by root, until what it answers is called. */
function mountReadOnly(path: string): () => void {
  run('mount', '--bind', path, path);
  const end = endOnce(() => run('umount', '--lazy', path));
  run('mount', '-o', 'remount,bind,ro', path);
  return end;
}

function makeImmutable(path: string): () => void {
  run('chattr', '+i', path);
  return endOnce(() => run('chattr', '-i', path));
}

function endOnce(end: () => void): () => void {
  let isOver = false;
  const endIfNot = () => {
    if (!isOver) end();
    isOver = true;
  };
  onTestFinished(endIfNot);
  return endIfNot;
}

describe.each(drivers)('with %s', (_name, driver) => {
  const options = { driver, busyTimeoutMs: 500 };
  const record = ({ events }: SqliteStore, at: number): Promise<void> => events.record([{ at, event: 'paused' }]);
  const count = ({ connection }: SqliteStore): number => connection.prepare('select id from events').all([]).length;
  async function read(folder: StateFolder): Promise<SqliteStore> {
    const store = await openExistingSqliteStore(folder, options);
    onTestFinished(async () => store?.close());
    return store as SqliteStore;
  }

  /** Two events, of which the second one is only in the journal. */
  async function makeLogs(): Promise<Record<'closed' | 'open', StateFolder>> {
    const [closed, open] = [makeStateOf(makeTemporaryRoot()), makeStateOf(makeTemporaryRoot())];
    const store = await openSqliteStore(closed, options);
    await record(store, 1);
    await record(store, 2);
    for (const suffix of ['', '-wal', '-shm']) {
      copyFileSync(closed.database + suffix, open.database + suffix);
    }
    await store.close();
    return { closed, open };
  }

  test.each(['closed', 'open'] as const)('a log that was left %s is read as a whole', async (how) => {
    const folder = (await makeLogs())[how];
    mountReadOnly(folder.path);
    const store = await read(folder);
    expect([store.isReadOnly, count(store)]).toEqual([true, 2]);
    const writing = record(store, 3);
    await expect(writing).rejects.toMatchObject({ code: expect.stringMatching(/^SQLITE_READONLY/) });
  });

  test('a pass is told that it cannot be written', async () => {
    const { closed } = await makeLogs();
    mountReadOnly(closed.path);
    await expect(openSqliteStore(closed, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'read-only',
      message: expect.stringMatching(/^\S+activity\.db cannot be written \(EROFS: .+\)\. Make it and its folder /),
    });
  });

  test('where there is no log yet, a pass is told the same, and reading finds none', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    mountReadOnly(folder.path);
    await expect(openSqliteStore(folder, options)).rejects.toMatchObject({ kind: 'read-only' });
    expect(await openExistingSqliteStore(folder, options)).toBeNull();
  });

  test('what is not all there is is not shown as if it were', async () => {
    const { open } = await makeLogs();
    rmSync(`${open.database}-shm`);
    mountReadOnly(open.path);
    await expect(openExistingSqliteStore(open, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'io',
      message: expect.stringMatching(/^\S+activity\.db cannot be used \(EROFS/),
    });
  });

  test('a log that may not be changed is read, too', async () => {
    const { closed } = await makeLogs();
    makeImmutable(closed.database);
    await expect(openSqliteStore(closed, options)).rejects.toMatchObject({ kind: 'read-only' });
    const store = await read(closed);
    expect([store.isReadOnly, count(store)]).toEqual([true, 2]);
  });
});

test('the report reads a log that cannot be written', () => {
  const { root } = runPass({ 'a.sh': executable('#!/bin/sh\necho hello\n') });
  mountReadOnly(`${root}/.runner`);
  const place = { cwd: '/', env: cronEnv(root) };
  const report = runCommand(['--root', root, 'report', '--json'], place);
  expect(report.status).toBe(0);
  expect(report.stdout).toContain('"hourly/a"');
  const backup = runCommand(['--root', root, 'backup', `${root}/copy.db`], place);
  expect([backup.status, backup.stderr]).toEqual([0, '']);
  expect(statSync(`${root}/copy.db`).mode & 0o777).toBe(0o600);
});

test('doctor tells that the log is sound, and cannot be written', () => {
  const { root } = runPass({ 'a.sh': executable('#!/bin/sh\necho hello\n') });
  mountReadOnly(`${root}/.runner`);
  const found = diagnose(root, cronEnv(root));
  expect(found.of('log')).toEqual([
    { status: 'ok', found: expect.stringMatching(/^sound, .*schema \d+$/), cure: null },
    {
      status: 'problem',
      found: expect.stringMatching(/^can be read, but not be written: EROFS: read-only file system/),
      cure: expect.stringMatching(/^Make \.runner and its files yours and writable/),
    },
  ]);
  expect(found.of('file system')).toMatchObject([
    { status: 'problem', found: `nothing can be written to ${root}/.runner (EROFS: read-only file system)` },
  ]);
  const notTried = 'could not be checked: nothing can be written to';
  expect(found.of('locks')).toMatchObject([{ status: 'warning', found: expect.stringContaining(notTried) }]);
});

/** The first place that is tried where `.runner/` cannot be written. */
const fallbackOf = (root: string): StateFolder => fallbackStateFoldersOf(root)[0] as StateFolder;

test.each([
  ['its folder', (state: StateFolder) => mountReadOnly(state.path), fallbackOf],
  ['its file', (state: StateFolder) => makeImmutable(state.database), stateFolderOf],
])('%s cannot be written: passes go on beside it, and the log has all in the end', async (_, lock, placeOf) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': shellScript(), 'jobs/hourly/b.mjs': nodeScript() });
  const fallback = fallbackOf(root);
  onTestFinished(() => rmSync(fallback.path, { recursive: true, force: true }));
  const pass = () => runWithFault(root, ['hourly']);
  expect(await pass()).toMatchObject({ status: 0, stderr: '' });
  const unlock = lock(stateFolderOf(root));
  for (const spooled of [1, 2]) {
    // Told once a day.
    const told = spooled === 1 ? expect.stringMatching(/activity\.db cannot be written \(/) : '';
    expect(await pass()).toMatchObject({ status: 0, stderr: told });
    expect(readdirSync(placeOf(root).spool)).toHaveLength(spooled);
  }
  const report = await runWithFault(root, ['report', '--json']);
  expect([report.status, JSON.parse(report.stdout).totals.runs]).toEqual([0, 2]);
  unlock();
  expect(await pass()).toMatchObject({ status: 0, stderr: '' });
  const sql = 'select script, count(*) as runs, count(spool_id) as spooled from runs group by script';
  expect(queryLog(root, sql)).toEqual([
    { script: 'hourly/a', runs: 4, spooled: 2 },
    { script: 'hourly/b', runs: 4, spooled: 2 },
  ]);
  for (const { spool, locks, temporary, results, output } of [fallback].filter(({ path }) => existsSync(path)))
    for (const folder of [spool, locks, temporary, results, output]) expect(readdirSync(folder)).toEqual([]);
  checkInvariants(root);
});
