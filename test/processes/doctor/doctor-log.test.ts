import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { pause } from '../../../src/queue/pauses.ts';
import { newSpoolPath } from '../../../src/store/spool/files.ts';
import { fallbackStateFoldersOf } from '../../../src/system/place/fallback.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { runCommand } from '../../support/command.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { writeLog } from '../../support/written-log.ts';
import { check, look, makeCalledRoot, usual } from './doctor-place.ts';

const HOUR_MS = 3_600_000;
const SET_ASIDE = expect.stringMatching(/^The next pass renames it and creates a new log/);

/** A root that has run once, and its log's file. */
async function makeUsedRoot() {
  const { root, env } = await makeCalledRoot();
  runCommand(['hourly'], { cwd: root, env });
  return { root, env, database: join(root, '.runner/activity.db') };
}

/** What the log's check found, while the file stays as it is. */
async function checkFile(root: string, database: string, env: NodeJS.ProcessEnv) {
  const before = readFileSync(database);
  const found = await check(root, env, 'log');
  expect(readFileSync(database).equals(before)).toBe(true);
  return found;
}

test('before the first pass there is none, and none is made', async () => {
  const root = makeTemporaryRoot(usual);
  expect(await check(root, makeFakeCrontab().env, 'log')).toEqual([
    { status: 'note', found: 'none yet', cure: 'The first pass makes it: try `npx folder-runner hourly`.' },
  ]);
  expect(existsSync(join(root, '.runner'))).toBe(false);
});

test('a file that is no database is a problem', async () => {
  const { root, env, database } = await makeUsedRoot();
  writeFileSync(database, 'x'.repeat(8192));
  const found = await checkFile(root, database, env);
  expect(found).toEqual([{ status: 'problem', found: 'broken: file is not a database', cure: SET_ASIDE }]);
});

test('facts of the log are unknown where it cannot be read', async () => {
  const { root, env, database } = await makeUsedRoot();
  writeFileSync(database, 'x'.repeat(8192));
  const found = await look(root, env, 'calls', 'pauses');
  const unknown = [
    { status: 'note', found: 'unknown: the log could not be read', cure: 'See what log says, then look again.' },
  ];
  expect([found.of('calls'), found.of('pauses')]).toEqual([unknown, unknown]);
});

test('a truncated file is a problem', async () => {
  const { root, env, database } = await makeUsedRoot();
  truncateSync(database, 3 * 4096);
  expect(await checkFile(root, database, env)).toEqual([
    { status: 'problem', found: expect.stringMatching(/^(?:broken|damaged): \S/), cure: SET_ASIDE },
  ]);
});

test('a page of rubbish in the middle is found', async () => {
  const { root, env, database } = await makeUsedRoot();
  const content = readFileSync(database);
  content.fill(0xa5, 2 * 4096, 4 * 4096);
  writeFileSync(database, content);
  expect(await checkFile(root, database, env)).toEqual([
    { status: 'problem', found: expect.stringMatching(/^(?:broken|damaged): \S/), cure: SET_ASIDE },
  ]);
});

test('an empty file is a problem', async () => {
  const { root, env, database } = await makeUsedRoot();
  writeFileSync(database, '');
  expect(await checkFile(root, database, env)).toEqual([
    { status: 'problem', found: 'its file is empty, so its history is gone', cure: SET_ASIDE },
  ]);
});

test.each([0, 7])('the database of another program, of version %i, is a problem', async (version) => {
  const { root, env, database } = await makeUsedRoot();
  writeFileSync(database, '');
  changeFile(database, `pragma user_version = ${version}; create table posts (title text)`);
  expect(await checkFile(root, database, env)).toEqual([
    {
      status: 'problem',
      found: '.runner/activity.db is the database of another program',
      cure: 'Move it away; the next pass makes a new log.',
    },
  ]);
});

test('a log of a newer runner is a problem, with the command that cures it', async () => {
  const { root, env, database } = await makeUsedRoot();
  changeFile(database, 'pragma user_version = 99');
  expect(await check(root, env, 'log')).toMatchObject([
    {
      status: 'problem',
      found: expect.stringMatching(/^written by a newer runner \(schema 99/),
      cure: 'Update the package with `npm install folder-runner@latest`.',
    },
  ]);
});

test('a log that somebody keeps locked is a warning, and is not waited for long', async () => {
  const { root, env, database } = await makeUsedRoot();
  const code =
    "const d = new (require('node:sqlite').DatabaseSync)(process.argv[1]);" +
    "d.exec('pragma locking_mode = exclusive; pragma journal_mode = delete; begin exclusive');" +
    "console.log('held'); setTimeout(() => {}, 60000)";
  const holder = spawn(process.execPath, ['-e', code, database], { stdio: ['ignore', 'pipe', 'ignore'] });
  onTestFinished(() => void holder.kill('SIGKILL'));
  let isHeld = false;
  holder.stdout.once('data', () => {
    isHeld = true;
  });
  await until('the log is locked', () => isHeld);
  expect(await check(root, env, 'log')).toMatchObject([
    { status: 'warning', found: 'locked by another process: database is locked' },
  ]);
});

test('a log larger than the settings allow is noted', async () => {
  const { root, env, database } = await makeUsedRoot();
  changeFile(database, "insert into events (at, event, detail) values (1, 'paused', hex(zeroblob(1000000)))");
  writeFileSync(join(root, 'runner.config.json'), '{ "retention": { "maxDatabaseSize": "1mb" } }');
  expect(await check(root, env, 'log', 'note')).toEqual([
    {
      status: 'note',
      found: 'larger than the 1MB that the settings allow',
      cure: expect.stringMatching(/^The next passes prune it/),
    },
  ]);
});

test('a clock that was set back is found by the newest entry', async () => {
  const { root, env } = await makeCalledRoot();
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() + 2 * HOUR_MS);
  expect(await check(root, env, 'clock', 'problem')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(
        /^the clock is or was wrong: the newest entry of the log is (?:2h|1h 59m).* ahead of now$/,
      ),
      cure: expect.stringMatching(/^Ask the host to set the clock by NTP/),
    },
  ]);
});

test('pauses in force are noted, each with the command that ends it', async () => {
  const { root, env } = await makeCalledRoot();
  const { store } = await writeLog(root);
  const at = Date.now();
  const kind = 'pause' as const;
  await pause(store, [
    { name: '*', kind, until: at + HOUR_MS, createdAt: at, by: null },
    { name: 'hourly/a', kind, until: null, createdAt: at, by: null },
    { name: 'daily', kind, until: at - 1, createdAt: at - HOUR_MS, by: null },
  ]);
  expect(await check(root, env, 'pauses')).toEqual([
    {
      status: 'note',
      found: `everything is paused until ${new Date(at + HOUR_MS).toISOString()}`,
      cure: '`npx folder-runner resume` ends it.',
    },
    {
      status: 'note',
      found: 'hourly/a is paused until it is resumed',
      cure: '`npx folder-runner resume hourly/a` ends it.',
    },
  ]);
});

test('quarantined logs, waiting spool files and locks of the dead are named', async () => {
  const { root, env } = await makeCalledRoot();
  const { state } = await writeLog(root);
  for (const end of ['', '-wal', '-shm']) {
    writeFileSync(`${state.database}.broken-20261101T100000Z${end}`, '');
  }
  const identity = identifyDeadProcess();
  const spooled = newSpoolPath(state, { startedAt: Date.now(), pid: identity.pid });
  writeFileSync(spooled.replace(/part$/, 'jsonl'), '');
  writeFileSync(`${spooled.replace(/part$/, 'jsonl')}.unreadable`, '');
  mkdirSync(join(state.locks, 'hourly.lock'));
  const holder = { ...identity, since: Date.now() };
  writeFileSync(join(state.locks, 'hourly.lock/token.json'), JSON.stringify(holder));
  expect(await check(root, env, 'leftovers')).toEqual([
    {
      status: 'warning',
      found: '.runner/activity.db.broken-20261101T100000Z was quarantined because it was damaged',
      cure: expect.stringMatching(/^Delete it with its -wal and -shm/),
    },
    {
      status: 'note',
      found: `runs wait in ${state.spool} to be recorded in the log`,
      cure: 'The next pass that can open the log records them.',
    },
    {
      status: 'warning',
      found: `1 file in ${state.spool} could not be recorded in the log`,
      cure: expect.stringMatching(/^Look into the files that end in \.unreadable/),
    },
    {
      status: 'note',
      found: `the lock of hourly was left by pid ${identity.pid}, which is dead`,
      cure: 'The next pass takes it over.',
    },
  ]);
  expect(existsSync(join(state.locks, 'hourly.lock/token.json'))).toBe(true);
});

test('a folder in the place of the spool that others can write to is named', async () => {
  const { root, env } = await makeCalledRoot();
  const home = makeTemporaryRoot();
  vi.stubEnv('XDG_STATE_HOME', home);
  onTestFinished(() => void vi.unstubAllEnvs());
  const [, inHome] = fallbackStateFoldersOf(root) as [StateFolder, StateFolder];
  mkdirSync(inHome.path);
  chmodSync(inHome.path, 0o707);
  expect(await check(root, { ...env, XDG_STATE_HOME: home }, 'leftovers')).toEqual([
    {
      status: 'warning',
      found: `${inHome.path} is not read: others can write to it (mode 0707)`,
      cure: expect.stringMatching(/^If the folder and .+ the next pass then records these runs\./),
    },
  ]);
});

test('a file in place of .runner is a problem', async () => {
  const { root, env } = await makeCalledRoot();
  writeFileSync(join(root, '.runner'), '');
  chmodSync(join(root, '.runner'), 0o600);
  expect(await check(root, env, 'file system')).toEqual([
    {
      status: 'problem',
      found: `nothing can be written to ${root}/.runner (ENOTDIR: not a directory)`,
      cure: expect.stringMatching(/^Make the root and \.runner writable/),
    },
  ]);
});

function changeFile(path: string, statements: string): void {
  const database = new DatabaseSync(path);
  database.exec(statements);
  database.close();
}
