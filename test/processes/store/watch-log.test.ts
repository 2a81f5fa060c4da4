import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { SqliteSession } from '../../../src/store/sqlite/session.ts';
import { type SqliteStore, watchLog } from '../../../src/store/sqlite/store.ts';
import type { ChangeWatch } from '../../../src/store/store.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { nodeCache } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf, withJournal } from '../../support/store.ts';

interface Place {
  readonly folder: StateFolder;
  readonly store: SqliteStore;
  readonly watch: ChangeWatch;
}

async function openPlace(driver = drivers[0]?.[1], journal = 'wal'): Promise<Place> {
  const folder = makeStateOf(makeTemporaryRoot());
  const store = await openSqliteStore(folder, driver && { driver: withJournal(driver, journal) });
  const watch = store.watch();
  onTestFinished(async () => {
    watch.close();
    await store.close();
  });
  return { folder, store, watch };
}

async function startCommitter({ folder }: Place, journal = 'wal'): Promise<ChildProcess> {
  const script = join(import.meta.dirname, 'commit.child.ts');
  const child = spawn(process.execPath, [script, folder.database, journal], {
    env: nodeCache,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill());
  await once(child.stdout, 'data');
  return child;
}

async function commit(child: ChildProcess): Promise<void> {
  child.stdin?.write('\n');
  if (child.stdout) await once(child.stdout, 'data');
}

/** Generous, but far below the slow poll: what takes longer was not told of by the files. */
const TOLD_MS = 1_000;

describe.each(drivers)('with %s', (_, driver) => {
  describe.each(['wal', 'truncate', 'delete'])('and a journal of the kind %s', (journal) => {
    test('each commit of another process ends the wait', async () => {
      const place = await openPlace(driver, journal);
      const { watch } = place;
      const child = await startCommitter(place, journal);
      for (let round = 0; round < 20; round += 1) {
        const waiting = watch.changed(watch.look(), Date.now() + TOLD_MS);
        await sleep(round);
        child.stdin?.write('\n');
        expect(await waiting).toBe('changed');
        watch.found();
      }
    });

    test('what was committed since the look ends it at once, also before it began', async () => {
      const place = await openPlace(driver, journal);
      const { watch } = place;
      const child = await startCommitter(place, journal);
      const seen = watch.look();
      await commit(child);
      expect(await watch.changed(seen, 0)).toBe('changed');
      expect(await watch.changed(watch.look(), 0)).toBe('due');
    });

    test('what this process commits itself does not', async () => {
      const { watch, store } = await openPlace(driver, journal);
      const seen = watch.look();
      const waiting = watch.changed(seen, Date.now() + 150);
      await store.events.record([{ at: 0, event: 'paused' }]);
      expect(await waiting).toBe('due');
      expect(watch.look()).toBe(seen);
    });
  });
});

test('after long idleness a commit is told of by the files, not found by chance', async () => {
  const place = await openPlace();
  const child = await startCommitter(place);
  const waiting = place.watch.changed(place.watch.look(), null);
  // The log is looked at after about 2.9 s, and then not before 4.4 s.
  await sleep(3_200);
  await commit(child);
  const startMs = performance.now();
  expect(await waiting).toBe('changed');
  expect(performance.now() - startMs).toBeLessThan(600);
});

test('commits at any moment are never missed', async () => {
  const place = await openPlace();
  const { watch } = place;
  const child = await startCommitter(place);
  let committed = 0;
  child.stdout?.on('data', (text: Buffer) => {
    committed += text.toString().split('\n').length - 1;
  });
  for (let round = 0; round < 150; round += 1) {
    child.stdin?.write('\n');
    const seen = watch.look();
    if (countJobs(place) > round) continue;
    expect(await watch.changed(seen, Date.now() + TOLD_MS)).toBe('changed');
    expect(countJobs(place)).toBe(round + 1);
    watch.found();
  }
  expect(committed).toBeGreaterThan(0);
});

function countJobs({ store }: Place): number {
  return store.connection.prepare('select id from jobs').all([]).length;
}

test('a wait ends when its time has come, and not before', async () => {
  const { watch } = await openPlace();
  const untilMs = Date.now() + 120;
  expect(await watch.changed(watch.look(), untilMs)).toBe('due');
  expect(Date.now()).toBeGreaterThanOrEqual(untilMs);
  expect(Date.now()).toBeLessThan(untilMs + TOLD_MS);
});

test('a wait ends when it is told to, by its signal or by closing, whenever that was', async () => {
  const { watch } = await openPlace();
  const stop = new AbortController();
  const waits = [1, 2].map(() => watch.changed(watch.look(), null, stop.signal));
  stop.abort();
  expect(await Promise.all(waits)).toEqual(['stopped', 'stopped']);
  expect(await watch.changed(watch.look(), null, stop.signal)).toBe('stopped');
  const closed = watch.changed(watch.look(), null);
  watch.close();
  expect(await closed).toBe('stopped');
  expect(await watch.changed(watch.look(), null)).toBe('stopped');
});

test('several waits are all woken by one commit', async () => {
  const place = await openPlace();
  const child = await startCommitter(place);
  const waits = [1, 2, 3].map(() => place.watch.changed(place.watch.look(), Date.now() + TOLD_MS));
  await commit(child);
  expect(await Promise.all(waits)).toEqual(['changed', 'changed', 'changed']);
});

test('a closed watch keeps no process alive', () => {
  const root = makeTemporaryRoot();
  makeStateOf(root);
  const script = join(import.meta.dirname, 'wait-and-close.child.ts');
  const output = execFileSync(process.execPath, [script, root], { env: nodeCache, timeout: 20_000 });
  expect(output.toString()).toBe('stopped,stopped\n');
});

test('where files cannot be watched the log is looked at all the same', async () => {
  const { folder, store, ...place } = await openPlace();
  const session = new SqliteSession(store.connection, { path: folder.database, isWal: true });
  const watch = watchLog({ ...folder, path: join(folder.path, 'nowhere') }, session);
  const child = await startCommitter({ ...place, folder, store });
  const waiting = watch.changed(watch.look(), null);
  // Past the quick looks at the beginning.
  await sleep(3_200);
  await commit(child);
  const startMs = performance.now();
  expect(await waiting).toBe('changed');
  expect(performance.now() - startMs).toBeLessThan(900);
});

test('a log that is moved away ends the wait: whoever writes then learns of it', async () => {
  const { folder, watch } = await openPlace();
  const waiting = watch.changed(watch.look(), Date.now() + TOLD_MS);
  renameSync(folder.database, join(folder.path, 'elsewhere.db'));
  expect(await waiting).toBe('changed');
});

test('a log that is locked by another holds nobody up', async () => {
  const { folder, watch } = await openPlace(drivers[0]?.[1], 'truncate');
  const before = watch.look();
  const other = new Sqlite(folder.database);
  onTestFinished(() => void other.close());
  other.exec("pragma journal_mode = truncate; begin exclusive; insert into jobs (name) values ('a')");
  const startMs = performance.now();
  expect(watch.look()).toBe(before);
  expect(performance.now() - startMs).toBeLessThan(TOLD_MS);
  const waiting = watch.changed(before, Date.now() + 10_000);
  other.exec('commit');
  expect(await waiting).toBe('changed');
});

test('a log that is closed ends the wait', async () => {
  const { store, watch } = await openPlace();
  const seen = watch.look();
  await store.close();
  expect(await watch.changed(seen, null)).toBe('changed');
});
