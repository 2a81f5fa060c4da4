import { execFileSync } from 'node:child_process';
import { copyFileSync, rmSync, statSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { StateFolder } from '../../src/config/state-folder.ts';
import { recordActivity } from '../../src/store/activity.ts';
import { openExistingStore, openStore, type Store } from '../../src/store/open-store.ts';
import { drivers } from '../support/drivers.ts';
import { runCommand } from '../support/run-command.ts';
import { cronEnv, runPass } from '../support/run-pass.ts';

import { makeStateOf } from '../support/state-of.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

/** Nothing in the folder can be written any more, also not by root. */
function mountReadOnly(path: string): void {
  execFileSync('mount', ['--bind', path, path]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', path]));
  execFileSync('mount', ['-o', 'remount,bind,ro', path]);
}

describe.each(drivers)('with %s', (_name, driver) => {
  const options = { driver, busyTimeoutMs: 500 };
  const count = async ({ db }: Store): Promise<number> =>
    (await db.selectFrom('activity').select('id').execute()).length;
  async function read(folder: StateFolder): Promise<Store> {
    const store = await openExistingStore(folder, options);
    onTestFinished(async () => store?.close());
    return store as Store;
  }

  /** Two events, of which the second one is only in the journal. */
  async function makeLogs(): Promise<Record<'closed' | 'open', StateFolder>> {
    const [closed, open] = [makeStateOf(makeTemporaryRoot()), makeStateOf(makeTemporaryRoot())];
    const store = await openStore(closed, options);
    await recordActivity(store.db, { at: 1, event: 'worker-started' });
    await recordActivity(store.db, { at: 2, event: 'worker-finished' });
    for (const suffix of ['', '-wal', '-shm']) {
      copyFileSync(closed.database + suffix, open.database + suffix);
    }
    await store.close();
    return { closed, open };
  }

  test.each(['closed', 'open'] as const)(
    'a log that was left %s is read as a whole',
    async (how) => {
      const folder = (await makeLogs())[how];
      mountReadOnly(folder.path);
      const store = await read(folder);
      expect([store.isReadOnly, await count(store)]).toEqual([true, 2]);
      const writing = recordActivity(store.db, { at: 3, event: 'paused' });
      await expect(writing).rejects.toMatchObject({
        code: expect.stringMatching(/^SQLITE_READONLY/),
      });
    },
  );

  test('a pass is told that it cannot be written', async () => {
    const { closed } = await makeLogs();
    mountReadOnly(closed.path);
    await expect(openStore(closed, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'read-only',
      message: expect.stringMatching(
        /^\S+activity\.db cannot be written \(EROFS: .+\)\. Make it and its folder /,
      ),
    });
  });

  test('where there is no log yet, a pass is told the same, and reading finds none', async () => {
    const folder = makeStateOf(makeTemporaryRoot());
    mountReadOnly(folder.path);
    await expect(openStore(folder, options)).rejects.toMatchObject({ kind: 'read-only' });
    expect(await openExistingStore(folder, options)).toBeNull();
  });

  test('what is not all there is is not shown as if it were', async () => {
    const { open } = await makeLogs();
    rmSync(`${open.database}-shm`);
    mountReadOnly(open.path);
    await expect(openExistingStore(open, options)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      kind: 'io',
      message: expect.stringMatching(/^\S+activity\.db cannot be used \(EROFS/),
    });
  });

  test('a log that may not be changed is read, too', async () => {
    const { closed } = await makeLogs();
    execFileSync('chattr', ['+i', closed.database]);
    onTestFinished(() => void execFileSync('chattr', ['-i', closed.database]));
    await expect(openStore(closed, options)).rejects.toMatchObject({ kind: 'read-only' });
    const store = await read(closed);
    expect([store.isReadOnly, await count(store)]).toEqual([true, 2]);
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
