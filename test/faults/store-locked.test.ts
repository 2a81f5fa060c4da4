import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isStoreFailure, kindOfStoreFailure } from '../../src/store/failures.ts';
import { openExistingSqliteStore, openSqliteStore } from '../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';
import type { StateFolder } from '../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { drivers, makeStateOf } from '../support/store.ts';
import { until } from '../support/until.ts';

const holdLock = new URL('store-hold-lock.child.ts', import.meta.url).pathname;

/** A process of another program that holds a lock on the log; ends it. */
async function lock({ database }: StateFolder, statement: string): Promise<() => Promise<void>> {
  const child = spawn(process.execPath, [holdLock, database, statement], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [text] = (await once(child.stdout, 'data')) as [Buffer];
  expect(String(text)).toBe('locked\n');
  return async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
}

const WRITERS = 'begin immediate';
const EVERYBODY = `pragma locking_mode = exclusive; begin exclusive; create table held (a); commit`;

describe.each(drivers)('with %s', (_name, driver) => {
  const options = { driver, busyTimeoutMs: 200 };
  async function makeLog(): Promise<StateFolder> {
    const folder = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(folder, options);
    await record(store, 1);
    await store.close();
    return folder;
  }
  const record = (store: SqliteStore, at: number): Promise<void> => store.events.record([{ at, event: 'paused' }]);
  const readInstants = async (store: SqliteStore | null) =>
    await (await store?.queries())?.selectFrom('activity').select('at').orderBy('at').execute();
  const close = (store: SqliteStore | null) => onTestFinished(async () => store?.close());

  test('while another program writes, reading waits for nobody', async () => {
    const folder = await makeLog();
    await lock(folder, WRITERS);
    const start = performance.now();
    const store = await openExistingSqliteStore(folder, { driver, busyTimeoutMs: 20_000 });
    close(store);
    expect(await readInstants(store)).toEqual([{ at: 1 }]);
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  test('writing fails after the time that it waits, and works again when the other one is gone', async () => {
    const folder = await makeLog();
    const release = await lock(folder, WRITERS);
    const store = await openSqliteStore(folder, options);
    close(store);
    const write = () => store.transaction(({ events }) => events.record([{ at: 2, event: 'paused' }]));
    const error = await write().catch((thrown: unknown) => thrown);
    expect([isStoreFailure(error), kindOfStoreFailure(error)]).toEqual([true, 'locked']);
    await release();
    await write();
    expect(await readInstants(store)).toHaveLength(2);
  });

  test('a log that is locked for everybody is told as such, and is not quarantined', async () => {
    const folder = await makeLog();
    const release = await lock(folder, EVERYBODY);
    for (const open of [openSqliteStore, openExistingSqliteStore]) {
      await expect(open(folder, options)).rejects.toMatchObject({
        name: 'StoreUnavailable',
        kind: 'locked',
        message: expect.stringMatching(/^\S+activity\.db stays locked by another program \(database is locked\)\. /),
      });
    }
    await release();
    const store = await openSqliteStore(folder, options);
    close(store);
    expect(store.quarantined).toBeNull();
  });

  test('a process that waits gets the log as soon as it is free', async () => {
    const folder = await makeLog();
    const release = await lock(folder, WRITERS);
    const store = await openSqliteStore(folder, { driver, busyTimeoutMs: 0 });
    close(store);
    let isWritten = false;
    const tryToWrite = async () => {
      await record(store, 2);
      isWritten = true;
    };
    await expect(tryToWrite()).rejects.toMatchObject({ code: 'SQLITE_BUSY' });
    await release();
    await until('the log is written', async () => {
      await tryToWrite().catch(() => undefined);
      return isWritten;
    });
  });

  test('a process that waits does what else it has to do', async () => {
    const folder = await makeLog();
    const release = await lock(folder, WRITERS);
    const store = await openSqliteStore(folder, { driver, busyTimeoutMs: 60_000 });
    close(store);
    let isWritten = false;
    const written = record(store, 2).then(() => {
      isWritten = true;
    });
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 10);
    await until('time goes on', () => ticks > 30).finally(() => clearInterval(timer));
    expect(isWritten).toBe(false);
    await release();
    await written;
  });

  test('making a log waits for whoever makes one, and no longer than it may', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    await (await openSqliteStore(folder, options)).close();
    const lockFile = { ...folder, database: `${folder.path}/activity.lock` };
    const release = await lock(lockFile, 'begin exclusive');
    const fresh = { ...folder, database: `${folder.path}/other.db` };
    await expect(openSqliteStore(fresh, options)).rejects.toMatchObject({ kind: 'locked' });
    await release();
    await (await openSqliteStore(fresh, options)).close();
  });
});
