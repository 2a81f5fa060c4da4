import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isCorruption } from '../../../src/store/failures.ts';
import { isSuspect, markSuspect } from '../../../src/store/sqlite/file.ts';
import { openExistingSqliteStore, openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { startNode } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { repository } from '../../support/site.ts';
import { checkIntegrity, drivers, makeDamagedLog, makeStateOf } from '../../support/store.ts';

const openAndClose = new URL('open-and-close.child.ts', import.meta.url).pathname;
const NOON = Date.UTC(2026, 10, 21, 12, 30, 59);
const STAMP = '20261121-123059';
const PAGE = 4096;
const GARBAGE = 'Dear diary, today nothing happened. '.repeat(1000);

const filesIn = ({ path }: StateFolder): string[] => readdirSync(path).filter((name) => name.startsWith('activity'));

/** Breaks a closed file at the place of the log. */
const damages: Readonly<Record<string, (path: string) => void>> = {
  'no byte at all': (path) => truncateSync(path, 0),
  'text of another kind': (path) => writeFileSync(path, GARBAGE),
  'ninety-nine bytes: not even its header': (path) => truncateSync(path, 99),
  'a few bytes of its beginning': (path) => truncateSync(path, 60),
  'its first page alone': (path) => truncateSync(path, PAGE),
  'all but its last page': (path) => truncateSync(path, statSync(path).size - PAGE),
  'half of its pages, the last one cut through': (path) =>
    truncateSync(path, Math.floor(statSync(path).size / 2) - 1000),
  'zeros instead of its first page': (path) => overwrite(path, 0, Buffer.alloc(PAGE)),
  'rubbish behind its header': (path) => overwrite(path, 100, Buffer.alloc(PAGE - 100, 0xff)),
};

function overwrite(path: string, offset: number, bytes: Buffer): void {
  const content = readFileSync(path);
  bytes.copy(content, offset);
  writeFileSync(path, content);
}

const record = ({ events }: SqliteStore, at: number, detail: string): Promise<void> =>
  events.record([{ at, event: 'paused', detail }]);

const readEvents = ({ connection }: SqliteStore) =>
  connection.prepare('select at, event, detail from events').all([]) as { readonly event: string }[];

describe.each(drivers)('with %s', (_name, driver) => {
  const options = { driver, now: () => NOON };
  async function open(folder: StateFolder): Promise<SqliteStore> {
    const store = await openSqliteStore(folder, options);
    onTestFinished(() => store.close());
    return store;
  }
  /** A log with more in it than fits on a few pages. */
  async function makeLog(): Promise<StateFolder> {
    const folder = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(folder, options);
    for (let index = 0; index < 50; index += 1) {
      await record(store, index, `event ${index} `.repeat(300));
    }
    await store.close();
    return folder;
  }

  test.each(Object.entries(damages))('a log of which is left: %s', async (_what, damage) => {
    const folder = await makeLog();
    damage(folder.database);
    const broken = readFileSync(folder.database);
    const store = await open(folder);
    expect(store.quarantined).toMatch(
      /^\S+activity\.db was damaged \([^)]+\): renamed to \S+activity\.db\.broken-20261121-123059, /,
    );
    const [event, ...more] = readEvents(store);
    expect(event).toEqual({ at: NOON, event: 'log-quarantined', detail: store.quarantined });
    expect(more).toEqual([]);
    expect(await checkIntegrity(store)).toEqual([]);
    expect(readFileSync(`${folder.database}.broken-${STAMP}`).equals(broken)).toBe(true);
    await store.close();
    const next = await open(folder);
    expect([next.quarantined, readEvents(next).length]).toEqual([null, 1]);
  });

  test('it is quarantined whole, and a second one in the same second beside it', async () => {
    const folder = await makeLog();
    writeFileSync(folder.database, '');
    for (const suffix of ['-wal', '-shm', '-journal']) {
      writeFileSync(folder.database + suffix, `${GARBAGE}${suffix}`);
    }
    await (await open(folder)).close();
    writeFileSync(folder.database, GARBAGE);
    writeFileSync(`${folder.database}-wal`, `${GARBAGE}-wal of the second`);
    await (await open(folder)).close();
    const name = `activity.db.broken-${STAMP}`;
    const aside = filesIn(folder).filter((file) => file.includes('.broken-'));
    expect(aside.filter((file) => file !== `${name}-2-shm`)).toEqual([
      name,
      `${name}-2`,
      `${name}-2-wal`,
      `${name}-journal`,
      `${name}-shm`,
      `${name}-wal`,
    ]);
    const read = (file: string) => readFileSync(`${folder.path}/${file}`, 'utf8');
    expect(read(`${name}-wal`)).toBe(`${GARBAGE}-wal`);
    expect(read(`${name}-journal`)).toBe(`${GARBAGE}-journal`);
    expect(read(`${name}-2-wal`)).toBe(`${GARBAGE}-wal of the second`);
  });

  test('damage that only an answer shows is looked for once it was met', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    await makeDamagedLog(folder);
    const store = await openSqliteStore(folder, options);
    expect(store.quarantined).toBeNull();
    const reading = store.transaction(async () => readEvents(store));
    const error = await reading.catch((thrown: unknown) => thrown);
    expect(isCorruption(error)).toBe(true);
    expect(await checkIntegrity(store)).not.toEqual([]);
    markSuspect(folder);
    await store.close();
    const next = await open(folder);
    expect(next.quarantined).toContain(`activity.db.broken-${STAMP}`);
    expect(isSuspect(folder)).toBe(false);
  });

  test('a log that was suspected for nothing is kept', async () => {
    const folder = await makeLog();
    markSuspect(folder);
    const store = await open(folder);
    expect(store.quarantined).toBeNull();
    expect(readEvents(store)).toHaveLength(50);
    expect(isSuspect(folder)).toBe(false);
  });

  test('what only reads says so and leaves it to the next pass', async () => {
    const folder = await makeLog();
    writeFileSync(folder.database, GARBAGE);
    await expect(openExistingSqliteStore(folder, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'broken',
      message: expect.stringMatching(
        /^\S+activity\.db seems to be damaged \(file is not a database\)\. The next pass /,
      ),
    });
    expect(readFileSync(folder.database, 'utf8')).toBe(GARBAGE);
  });

  test('a journal without its log is kept, and gets nothing into the new one', async () => {
    const folder = await makeLog();
    const store = await openSqliteStore(folder, options);
    await record(store, 1, 'only in the journal');
    const orphan = makeStateOf(makeTemporaryRoot());
    copyFileSync(`${folder.database}-wal`, `${orphan.database}-wal`);
    copyFileSync(`${folder.database}-shm`, `${orphan.database}-shm`);
    await store.close();
    const wal = readFileSync(`${orphan.database}-wal`);
    expect(wal.length).toBeGreaterThan(PAGE);
    const fresh = await open(orphan);
    expect(fresh.quarantined).toMatch(
      /^\S+activity\.db-wal, \S+activity\.db-shm existed without \S+activity\.db: renamed to /,
    );
    expect(readEvents(fresh).map(({ event }) => event)).toEqual(['log-quarantined']);
    expect(await checkIntegrity(fresh)).toEqual([]);
    expect(readFileSync(`${orphan.database}.broken-${STAMP}-wal`).equals(wal)).toBe(true);
  });

  test('a rollback journal without its log is kept, and is not rolled back into the new one', async () => {
    const folder = await makeLog();
    const store = await openSqliteStore(folder, options);
    await store.close();
    const connection = driver.open(folder.database, { timeoutMs: 0 });
    connection.pragma('journal_mode = delete');
    // So small that the changed pages, and before them the journal, go to the disk at once.
    connection.exec('pragma cache_size = 1; begin immediate; update events set detail = at');
    const orphan = makeStateOf(makeTemporaryRoot());
    copyFileSync(`${folder.database}-journal`, `${orphan.database}-journal`);
    connection.close();
    expect(statSync(`${orphan.database}-journal`).size).toBeGreaterThan(PAGE);
    const fresh = await open(orphan);
    expect(fresh.quarantined).toContain('activity.db-journal existed without');
    expect(await checkIntegrity(fresh)).toEqual([]);
    expect(readEvents(fresh).length).toBe(1);
    expect(existsSync(`${orphan.database}.broken-${STAMP}-journal`)).toBe(true);
  });

  test('what is empty or only an index of a journal is not worth a word', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    writeFileSync(`${folder.database}-wal`, '');
    writeFileSync(`${folder.database}-journal`, '');
    writeFileSync(`${folder.database}-shm`, GARBAGE);
    const store = await open(folder);
    expect([store.quarantined, readEvents(store)]).toEqual([null, []]);
    expect(filesIn(folder).filter((name) => name.includes('broken'))).toEqual([]);
  });

  test('a journal that its log was left with is taken in', async () => {
    const folder = await makeLog();
    const store = await openSqliteStore(folder, options);
    await record(store, 99, '');
    const killed = makeStateOf(makeTemporaryRoot());
    for (const suffix of ['', '-wal']) {
      copyFileSync(folder.database + suffix, killed.database + suffix);
    }
    await store.close();
    const next = await open(killed);
    expect([next.quarantined, readEvents(next).length]).toEqual([null, 51]);
  });

  test('a log that was half made is made anew', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    writeFileSync(`${folder.path}/activity.new`, GARBAGE);
    writeFileSync(`${folder.path}/activity.new-journal`, GARBAGE);
    const store = await open(folder);
    expect([store.quarantined, await checkIntegrity(store)]).toEqual([null, []]);
    expect(filesIn(folder).filter((name) => name.includes('.new'))).toEqual([]);
  });
});

const hasSqlite3 = spawnSync('sqlite3', ['--version']).error === undefined;

test.skipIf(!hasSqlite3)('what stands around a damaged page is read by the command of the page', async () => {
  const folder = makeStateOf(makeTemporaryRoot());
  await makeDamagedLog(folder);
  const page = readFileSync(join(repository, 'docs/json.md'), 'utf8');
  const [, command = ''] = /^```text\n(sqlite3 .*)\n```$/m.exec(page) ?? [];
  const own = command.replace(/\.runner\/\S+/, 'activity.db');
  execFileSync('sh', ['-c', `${own}; sqlite3 saved.db 'select count(*) from events' >count`], { cwd: folder.path });
  const count = Number(readFileSync(join(folder.path, 'count'), 'utf8'));
  expect(count).toBeGreaterThan(40);
  expect(count).toBeLessThan(50);
});

test('eight processes that meet a broken log in the same moment quarantine it once', async () => {
  const root = makeTemporaryRoot();
  const folder = makeStateOf(root);
  writeFileSync(folder.database, GARBAGE);
  const children = Array.from({ length: 8 }, () => startNode([openAndClose, root, '8']));
  for (const end of await Promise.all(children.map((child) => child.ended))) {
    expect(end).toEqual({ status: 0, stdout: 'opened, 0 workers\n', stderr: '' });
  }
  expect(filesIn(folder).filter((name) => name.includes('.broken-'))).toHaveLength(1);
  const store = await openSqliteStore(folder);
  onTestFinished(() => store.close());
  expect(readEvents(store)).toMatchObject([{ event: 'log-quarantined' }]);
});
