import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import type { Ended } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runShippedJob } from '../../support/run.ts';

const backUp = (root: string, variables: Readonly<Record<string, string>> = {}): Promise<Ended> =>
  runShippedJob('daily/backup-activity-log.ts', root, variables);

/** A log in which every row has a twin: a copy that was torn in the middle shows. */
const openLog = (root: string, journal: 'wal' | 'truncate'): Database.Database => {
  mkdirSync(join(root, '.runner'), { recursive: true, mode: 0o700 });
  const log = new Database(join(root, '.runner', 'activity.db'), { timeout: 15_000 });
  onTestFinished(() => {
    log.close();
  });
  log.pragma(`journal_mode = ${journal}`);
  log.exec('create table left_side (id integer primary key, filler blob)');
  log.exec('create table right_side (id integer primary key, filler blob)');
  return log;
};

const addPair = (log: Database.Database): void => {
  log.transaction(() => {
    for (const side of ['left_side', 'right_side']) {
      log.exec(`insert into ${side} (filler) values (randomblob(20000))`);
    }
  })();
};

const copiesOf = (root: string, folder = '.runner/backups'): string[] => readdirSync(join(root, folder)).sort();

const readCopy = (path: string) => {
  const copy = new Database(path, { readonly: true });
  onTestFinished(() => {
    copy.close();
  });
  const count = (table: string): unknown => copy.prepare(`select count(*) from ${table}`).pluck().get();
  return {
    integrity: copy.pragma('integrity_check', { simple: true }),
    journal: copy.pragma('journal_mode', { simple: true }),
    left: count('left_side'),
    right: count('right_side'),
  };
};

test('without a log it does nothing and says so', async () => {
  const { status, stdout } = await backUp(makeTemporaryRoot());
  expect(status).toBe(0);
  expect(stdout).toMatch(/^Nothing to back up: there is no activity log at .*activity\.db yet\.\n$/);
});

test.each(['wal', 'truncate'] as const)(
  'in %s mode the copy holds what was written last, in one file of its own',
  async (journal) => {
    const root = makeTemporaryRoot();
    const log = openLog(root, journal);
    for (let count = 0; count < 20; count += 1) addPair(log);
    const { status, stdout, stderr } = await backUp(root);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/^Backed up .*activity\.db to .* \(0\.8 MB\); 0 old copies removed\n$/);
    const copies = copiesOf(root);
    expect(copies).toEqual([expect.stringMatching(/^activity-\d{8}-\d{6}\.db$/)]);
    const path = join(root, '.runner/backups', copies[0] ?? '');
    expect(readCopy(path)).toEqual({ integrity: 'ok', journal: 'delete', left: 20, right: 20 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  },
);

test.each(['wal', 'truncate'] as const)(
  'in %s mode the copy is whole although the log is written to all the while',
  async (journal) => {
    const root = makeTemporaryRoot();
    const log = openLog(root, journal);
    for (let count = 0; count < 500; count += 1) addPair(log);
    const backup = backUp(root);
    let isOver = false;
    const over = backup.finally(() => {
      isOver = true;
    });
    let written = 0;
    while (!isOver) {
      addPair(log);
      written += 1;
      await new Promise(setImmediate);
    }
    expect(await over).toMatchObject({ status: 0, stderr: '' });
    expect(written).toBeGreaterThan(1);
    const copy = readCopy(join(root, '.runner/backups', copiesOf(root)[0] ?? ''));
    expect(copy.integrity).toBe('ok');
    expect(copy.left).toBe(copy.right);
    expect(copy.left).toBeGreaterThanOrEqual(500);
    expect(copy.left).toBeLessThanOrEqual(500 + written);
  },
);

test('the newest copies are kept, and files of other names never go', async () => {
  const root = makeTemporaryRoot({
    'copies/activity-20250101-000000.db': 'oldest',
    'copies/activity-20250102-000000.db': 'older',
    'copies/activity-mine.db': 'mine',
  });
  addPair(openLog(root, 'wal'));
  const { stdout } = await backUp(root, { BACKUP_FOLDER: 'copies', BACKUP_KEEP: '2' });
  expect(stdout).toContain('1 old copies removed');
  expect(copiesOf(root, 'copies')).toEqual([
    'activity-20250102-000000.db',
    expect.stringMatching(/^activity-20(?!2501).*\.db$/),
    'activity-mine.db',
  ]);
});

test('a damaged log fails, leaves no copy, and the earlier copies stay', async () => {
  const root = makeTemporaryRoot({ '.runner/backups/activity-20250101-000000.db': 'old' });
  const log = openLog(root, 'truncate');
  for (let count = 0; count < 20; count += 1) addPair(log);
  log.close();
  const path = join(root, '.runner/activity.db');
  const bytes = readFileSync(path);
  bytes.fill(0xff, 4096, 4096 * 3);
  writeFileSync(path, bytes);
  const { status, stderr } = await backUp(root, { BACKUP_KEEP: '1' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/damaged|malformed/);
  expect(copiesOf(root)).toEqual(['activity-20250101-000000.db']);
});

test('a wrong number is an error that names it', async () => {
  const { status, stderr } = await backUp(makeTemporaryRoot(), { BACKUP_KEEP: '0' });
  expect(status).toBe(1);
  expect(stderr).toContain('BACKUP_KEEP must be a whole number above 0, but is "0".');
});
