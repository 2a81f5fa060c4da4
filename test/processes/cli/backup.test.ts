import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { APPLICATION_ID } from '../../../src/store/sqlite/file.ts';
import { cronPlace, type Ended, runCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeDamagedLog, makeStateOf, openSqliteOf } from '../../support/store.ts';

const backUp = (root: string, ...args: string[]): Ended =>
  runCommand(['backup', '--root', root, ...args], { ...cronPlace(root), cwd: root });

async function makeRootWithLog(): Promise<string> {
  const root = makeTemporaryRoot();
  const store = await openSqliteOf(root);
  await store.events.record([{ at: 1, event: 'paused', detail: '*' }]);
  return root;
}

/** But for Node's compile cache, as the root is the home as well. */
const namesIn = (root: string): string[] =>
  readdirSync(root)
    .filter((name) => name !== '.cache')
    .toSorted();

function readCopy(path: string) {
  const copy = new Database(path, { readonly: true, fileMustExist: true });
  onTestFinished(() => void copy.close());
  const pragma = (name: string): unknown => copy.pragma(name, { simple: true });
  return {
    integrity: pragma('integrity_check'),
    application: pragma('application_id'),
    journal: pragma('journal_mode'),
    events: copy.prepare('select count(*) from activity').pluck().get(),
  };
}

test('the copy holds all there is, in one file that only its owner can read', async () => {
  const root = await makeRootWithLog();
  const path = join(root, 'copy.db');
  const { status, stdout, stderr } = backUp(root, 'copy.db');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(new RegExp(`^${path} \\d+(\\.\\d)?KB\n$`));
  expect(readCopy(path)).toEqual({ integrity: 'ok', application: APPLICATION_ID, journal: 'delete', events: 1 });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(namesIn(root)).toEqual(['.runner', 'copy.db', 'jobs']);
});

test('in a folder it gets a name with the time in it', async () => {
  const root = await makeRootWithLog();
  mkdirSync(join(root, 'copies'));
  const { stdout } = backUp(root, join(root, 'copies'));
  const [name] = readdirSync(join(root, 'copies'));
  expect(name).toMatch(/^activity-\d{8}-\d{6}\.db$/);
  expect(stdout.startsWith(`${join(root, 'copies', name ?? '')} `)).toBe(true);
});

test('a file that is there is replaced only if that is asked for', async () => {
  const root = await makeRootWithLog();
  const path = join(root, 'copy.db');
  writeFileSync(path, 'mine');
  expect(backUp(root, path)).toEqual({
    status: 2,
    stdout: '',
    stderr: `runner: ${path} exists already; --force replaces it.\n`,
  });
  const forced = backUp(root, '--force', path);
  expect(forced).toMatchObject({ status: 2, stdout: '' });
  expect(forced.stderr).toContain('is not a copy of a log');
  expect(readFileSync(path, 'utf8')).toBe('mine');
  const copy = join(root, 'yesterday.db');
  expect(backUp(root, copy).status).toBe(0);
  expect(backUp(root, '--force', copy).status).toBe(0);
  expect(readCopy(copy).events).toBe(1);
});

test('an empty name is no file', async () => {
  const root = await makeRootWithLog();
  expect(backUp(root, '')).toEqual({
    status: 2,
    stdout: '',
    stderr: 'runner: `npx folder-runner backup` needs the name of a file for the copy, found an empty one.\n',
  });
  expect(namesIn(root)).toEqual(['.runner', 'jobs']);
});

test.each(['activity.db', 'activity.db-wal', 'activity.db-journal'])(
  'the log is never written over: %s',
  async (name) => {
    const root = await makeRootWithLog();
    const real = join(root, '.runner', name);
    symlinkSync(join(root, '.runner'), join(root, 'state'));
    const targets = [real, join(root, 'state', name)];
    if (existsSync(real)) {
      symlinkSync(real, join(root, 'link.db'));
      targets.push(join(root, 'link.db'));
    }
    for (const target of targets) {
      expect(backUp(root, '--force', target)).toEqual({
        status: 2,
        stdout: '',
        stderr: `runner: ${target} is the activity log itself; name another file for the copy.\n`,
      });
    }
  },
);

const noFiles: readonly (readonly [string, (path: string) => unknown])[] = [
  ['a FIFO', (path) => spawnSync('mkfifo', [path])],
  ['a socket', listenAt],
  ['a symlink, which a copy would replace', (path) => symlinkSync(`${path}.old`, path)],
  ['a symlink, which a copy would replace', (path) => symlinkSync('nowhere', path)],
];

async function listenAt(path: string): Promise<void> {
  const server = createServer().listen(path);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
}

test.each(noFiles)('%s is never replaced', async (kind, make) => {
  const root = await makeRootWithLog();
  const path = join(root, 'copy.db');
  expect(backUp(root, `${path}.old`).status).toBe(0);
  await make(path);
  const before = lstatSync(path);
  for (const args of [[path], ['--force', path]]) {
    expect(backUp(root, ...args)).toEqual({
      status: 2,
      stdout: '',
      stderr: `runner: ${path} is ${kind}; name a file for the copy.\n`,
    });
  }
  expect(lstatSync(path)).toMatchObject({ ino: before.ino, mode: before.mode });
});

test('a folder that takes no files is named', async () => {
  const root = await makeRootWithLog();
  expect(backUp(root, '/proc/copy.db')).toEqual({
    status: 1,
    stdout: '',
    stderr: 'runner: /proc/copy.db was not written: no file can be made in /proc; name one in another folder\n',
  });
});

test('a file in the place of its folder is no folder', async () => {
  const root = await makeRootWithLog();
  writeFileSync(join(root, 'file'), '');
  const { status, stderr } = backUp(root, 'file/copy.db');
  expect([status, stderr]).toEqual([
    2,
    `runner: ${join(root, 'file')} is a file, not a folder; name another folder for the copy.\n`,
  ]);
});

test('a folder that is not there is wrong use', async () => {
  const root = await makeRootWithLog();
  const { status, stderr } = backUp(root, 'missing/copy.db');
  expect([status, stderr]).toEqual([2, `runner: There is no folder ${join(root, 'missing')}; make it first.\n`]);
});

test('where nothing has ever run there is nothing to copy, and no log is made', () => {
  const root = makeTemporaryRoot();
  const { status, stderr } = backUp(root, 'copy.db');
  const log = join(root, '.runner/activity.db');
  expect([status, stderr]).toEqual([1, `runner: There is no activity log at ${log} yet; the first pass creates it.\n`]);
  expect(namesIn(root)).toEqual(['jobs']);
});

test('a damaged log is told, and leaves no copy', async () => {
  const root = makeTemporaryRoot();
  await makeDamagedLog(makeStateOf(root));
  const { status, stdout, stderr } = backUp(root, 'copy.db');
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  expect(stderr).toMatch(/^runner: \S+copy\.db was not written: .*(damaged|malformed).*\n$/);
  expect(namesIn(root)).toEqual(['.runner', 'jobs']);
});

test.each(['backups', 'backups/', 'backups.d/'])(
  'a name that may be meant for a folder is refused: %s',
  async (name) => {
    const root = await makeRootWithLog();
    const { status, stderr } = backUp(root, name);
    const path = join(root, name.replace('/', ''));
    expect([status, stderr]).toEqual([
      2,
      `runner: There is no folder ${path}. For a copy in it, make the folder first; for a file, give it an ending: ${path}.db.\n`,
    ]);
    expect(namesIn(root)).toEqual(['.runner', 'jobs']);
  },
);

test('a log that others could have written is not opened', async () => {
  const root = await makeRootWithLog();
  chmodSync(join(root, '.runner'), 0o777);
  chmodSync(join(root, '.runner/activity.db'), 0o666);
  const { status, stderr } = backUp(root, 'copy.db');
  expect(status).toBe(2);
  expect(stderr).toMatch(/^runner: .*\.runner\/activity\.db can be written by/);
  expect(namesIn(root)).toEqual(['.runner', 'jobs']);
});
