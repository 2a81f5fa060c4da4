import { closeSync, openSync, readdirSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isStoreFailure } from '../../../src/store/failures.ts';
import { backUp } from '../../../src/store/sqlite/create.ts';
import { openExistingSqliteStore, openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { keepReserve, releaseReserve } from '../../../src/system/place/state-folder.ts';
import { inRoot } from '../../support/command.ts';
import { fillDisk, makeTemporaryRoot, mountSmallDisk } from '../../support/root.ts';
import { checkIntegrity, drivers, makeStateOf } from '../../support/store.ts';

/** A state folder on a disk of its own, of 2 MB. */
function makeSmallDisk(): StateFolder {
  const root = makeTemporaryRoot();
  mountSmallDisk(root, '2m');
  return makeStateOf(root);
}

const fill = ({ path }: StateFolder): void => fillDisk(join(path, 'filler'));
const empty = ({ path }: StateFolder): void => rmSync(join(path, 'filler'));

describe.each(drivers)('with %s', (_name, driver) => {
  const options = { driver, busyTimeoutMs: 500 };
  async function open(folder: StateFolder): Promise<SqliteStore> {
    const store = await openSqliteStore(folder, options);
    onTestFinished(() => store.close());
    return store;
  }
  const write = (store: SqliteStore, size: number): Promise<void> =>
    store.transaction(({ events }) => events.record([{ at: 1, event: 'paused', detail: 'x'.repeat(size) }]));
  const count = ({ connection }: SqliteStore): number => connection.prepare('select id from events').all([]).length;

  test('the end of a run finds room where the reserve was', async () => {
    const folder = makeSmallDisk();
    const store = await open(folder);
    keepReserve(folder);
    fill(folder);
    const error = await write(store, 60_000).catch((thrown: unknown) => thrown);
    expect(isStoreFailure(error)).toBe(true);
    expect(count(store)).toBe(0);
    await store.retryWhenFull(() => write(store, 60_000));
    expect(count(store)).toBe(1);
    expect(releaseReserve(folder)).toBe(false);
    await store.close();
    empty(folder);
    const later = await open(folder);
    expect([later.quarantined, count(later), await checkIntegrity(later)]).toEqual([null, 1, []]);
  });

  test('without a reserve it fails as what it is, and the log stays sound', async () => {
    const folder = makeSmallDisk();
    const store = await open(folder);
    await write(store, 10);
    fill(folder);
    keepReserve(folder);
    expect(statSync(folder.reserve, { throwIfNoEntry: false })).toBeUndefined();
    const writing = store.retryWhenFull(() => write(store, 60_000));
    await expect(writing).rejects.toMatchObject({ code: 'SQLITE_FULL' });
    empty(folder);
    await write(store, 60_000);
    expect([count(store), await checkIntegrity(store)]).toEqual([2, []]);
  });

  test('where there is no room to open it for writing, that is said, and it can be read', async () => {
    const folder = makeSmallDisk();
    const store = await open(folder);
    await write(store, 10);
    await store.close();
    fill(folder);
    await expect(openSqliteStore(folder, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'full',
      message: expect.stringMatching(/^No space left for \S+activity\.db \(/),
    });
    const reading = (await openExistingSqliteStore(folder, options)) as SqliteStore;
    onTestFinished(() => reading.close());
    expect([reading.isReadOnly, count(reading)]).toEqual([true, 1]);
  });

  test('where there is no room for a copy, that and the cure are said, and nothing is left of it', async () => {
    const folder = makeSmallDisk();
    const store = await open(folder);
    await write(store, 10);
    fill(folder);
    const before = readdirSync(folder.path);
    const copy = join(folder.path, 'copy.db');
    await expect(backUp(store, copy)).rejects.toThrow(
      `${copy} was not written: no space left in ${folder.path}; delete files that you do not need, or name another folder`,
    );
    expect(readdirSync(folder.path)).toEqual(before);
  });

  test('where there is no room for a log, none is half made, and a broken one is left', async () => {
    const folder = makeSmallDisk();
    const fd = openSync(folder.database, 'wx');
    writeSync(fd, 'Dear diary, today nothing happened. '.repeat(100));
    closeSync(fd);
    fill(folder);
    await expect(openSqliteStore(folder, options)).rejects.toMatchObject({ kind: 'full' });
    expect(statSync(folder.database).size).toBe(3600);
    empty(folder);
    const store = await open(folder);
    expect(store.quarantined).toContain('was damaged');
  });
});

test('without room `npx folder-runner resume` says so and how to cure it, and what is paused stays paused', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const state = makeStateOf(root);
  mountSmallDisk(state.path, '2m');
  await inRoot(root, 'pause', 'hourly');
  fill(state);
  expect(await inRoot(root, 'resume', 'hourly')).toEqual({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^runner: No space left for \S+activity\.db \(.+\): the disk is full, .+ Delete files that you do not need\.\n$/,
    ),
  });
  empty(state);
  expect((await inRoot(root, 'resume', 'hourly')).stdout).toBe('Resumed: hourly.\n');
});
