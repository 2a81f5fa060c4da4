import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { cronPlace, runner, startCommand } from '../../support/command.ts';
import { endOrphans } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const scripts = {
  'jobs/hourly/a.sh': 'echo first\n',
  'jobs/hourly/b.mjs': 'console.log("second"); process.exit(3);',
  'jobs/hourly/c.sh': 'echo third\n',
};

/** A log that a newer runner made: it is left as it is, and cannot be used. */
function makeForeignLog(root: string): string {
  const { database, path } = stateFolderOf(root);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const log = new Database(database);
  log.exec('create table theirs (id integer)');
  log.close();
  return database;
}

const spoolFiles = (root: string): string[] => readdirSync(join(root, '.runner', 'spool'));
const runs = 'select script, outcome, exit_code, output from runs order by id';
const recorded = [
  { script: 'hourly/a', outcome: 'succeeded', exit_code: 0, output: 'first\n' },
  { script: 'hourly/b', outcome: 'failed', exit_code: 3, output: 'second\n' },
  { script: 'hourly/c', outcome: 'succeeded', exit_code: 0, output: 'third\n' },
];

test('scripts run where the log is another program’s; the log takes them in once it can', () => {
  const root = makeTemporaryRoot(scripts);
  const database = makeForeignLog(root);
  const { status, stderr } = runner(root, 'hourly');
  expect(status).toBe(1);
  expect(stderr).toContain('is not an activity log');
  expect(stderr.match(/is not an activity log/g)).toHaveLength(1);
  expect(stderr).toContain('1 of 3 scripts of hourly did not succeed');
  expect(stderr).not.toContain('npx folder-runner show');
  expect(spoolFiles(root)).toEqual([expect.stringMatching(/\.jsonl$/)]);
  rmSync(database);
  // Who only reads leaves that to a pass.
  expect(runner(root, 'report').stderr).toMatch(/^Note: 3 runs wait in the spool, .+\n$/);
  expect(spoolFiles(root)).toHaveLength(1);
  runner(root, 'hourly');
  expect(queryLog(root, runs)).toEqual([...recorded, ...recorded]);
  expect(spoolFiles(root)).toEqual([]);
  expect(queryLog(root, 'select state, tier from workers order by id')).toEqual([
    { state: 'finished', tier: 'hourly' },
    { state: 'finished', tier: 'hourly' },
  ]);
  const detail = expect.stringMatching(/^3 runs that were recorded without the log, because /);
  expect(queryLog(root, `select detail from activity where event = 'spool-replayed'`)).toEqual([{ detail }]);
});

test('without the log the lock file alone keeps two passes apart', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'echo >> begun; while ! [ -e go ]; do sleep 0.02; done\n' });
  makeForeignLog(root);
  const first = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the script runs', () => existsSync(join(root, 'begun')));
  const second = runner(root, 'hourly');
  expect(second.status).toBe(0);
  writeFileSync(join(root, 'go'), '');
  expect((await first.ended).status).toBe(0);
  expect(spoolFiles(root)).toHaveLength(1);
});

test('a runner that dies without the log leaves a run that the log takes in', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.mjs': `
      import { appendFileSync, existsSync } from 'node:fs';
      appendFileSync('started', 'once\\n');
      setInterval(() => existsSync('go') && process.exit(4), 10);`,
  });
  const database = makeForeignLog(root);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the script runs', () => existsSync(join(root, 'started')));
  pass.kill('SIGKILL');
  await pass.ended;
  // It outlived its runner: it is not started a second time, without the log or with it.
  expect(runner(root, 'hourly').status).toBe(0);
  rmSync(database);
  expect(runner(root, 'hourly').status).toBe(0);
  endOrphans(root);
  expect(queryLog(root, 'select id from runs')).toEqual([]);
  expect(readFileSync(join(root, 'started'), 'utf8')).toBe('once\n');
  expect(queryLog(root, `select detail from activity where event = 'run-orphaned'`)).toEqual([
    { detail: expect.stringMatching(/^hourly\/a is still running \(pid .+\), left by a runner that died/) },
  ]);
  writeFileSync(join(root, 'go'), '');
  await until('it has ended', () =>
    readdirSync(join(root, '.runner', 'results')).some((name) => name.endsWith('.json')),
  );
  mkdirSync(join(root, 'jobs/daily'));
  runner(root, 'daily');
  expect(queryLog(root, 'select outcome, exit_code, measured_by from runs')).toEqual([
    { outcome: 'failed', exit_code: 4, measured_by: 'self' },
  ]);
  expect(spoolFiles(root)).toEqual([]);
});

test('what is wrong with the log, and what fails alike without it, is mailed once a day, by `run` told each time', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'test -e other || exit 3; exit 4\n' });
  makeForeignLog(root);
  const trouble = 'is not an activity log';
  const first = runner(root, 'hourly');
  expect([first.status, first.stderr]).toEqual([1, expect.stringContaining('exit code 3')]);
  expect(first.stderr).toContain(trouble);
  expect(runner(root, 'hourly')).toMatchObject({ status: 1, stderr: '' });
  const awaited = runner(root, 'run', 'hourly/a').stderr;
  expect(awaited).toContain(trouble);
  expect(awaited).toContain('exit code 3');
  writeFileSync(join(root, 'other'), '');
  const other = runner(root, 'hourly').stderr;
  expect(other).toContain('exit code 4');
  expect(other).not.toContain(trouble);
  const { cache } = stateFolderOf(root);
  const yesterday = Date.now() / 1000 - 86_400;
  for (const name of readdirSync(cache)) {
    if (name.startsWith('mailed-')) utimesSync(join(cache, name), yesterday, yesterday);
  }
  const reminder = runner(root, 'hourly').stderr;
  expect(reminder).toContain('exit code 4');
  expect(reminder).toContain(trouble);
});

test('a log that is lost in the middle of a pass loses no run, and none is made twice', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'echo a >> ran; touch started; while ! [ -e go ]; do sleep 0.02; done\n',
    'jobs/hourly/b.sh': 'echo b >> ran\n',
  });
  const { database } = stateFolderOf(root);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the first script runs', () => existsSync(join(root, 'started')));
  renameSync(database, `${database}.moved`);
  writeFileSync(join(root, 'go'), '');
  const { status, stderr } = await pass.ended;
  expect(status).toBe(0);
  expect(stderr).toMatch(/^runner: .*activity\.db .+\n$/);
  expect(readFileSync(join(root, 'ran'), 'utf8')).toBe('a\nb\n');
  mkdirSync(join(root, 'jobs/daily'));
  expect(runner(root, 'daily').status).toBe(0);
  expect(queryLog(root, 'select script, outcome from runs order by started_at, id')).toEqual([
    { script: 'hourly/a', outcome: 'succeeded' },
    { script: 'hourly/b', outcome: 'succeeded' },
  ]);
  expect(queryLog(root, 'select name, state from jobs order by name')).toEqual([
    { name: 'hourly/a', state: 'finished' },
    { name: 'hourly/b', state: 'finished' },
  ]);
  expect(spoolFiles(root)).toEqual([]);
  for (const folder of ['output', 'results', 'tmp', 'locks']) {
    expect(readdirSync(join(root, '.runner', folder))).toEqual([]);
  }
});

test('due without the log runs what has just become due, once', () => {
  const root = makeTemporaryRoot({
    'jobs/15min/a.sh': 'echo >> ran-15min\n',
    'jobs/yearly/a.sh': 'echo >> ran-yearly\n',
  });
  const database = makeForeignLog(root);
  expect(runner(root, 'due').stderr).toContain('is not an activity log');
  const before = new Date().getMinutes();
  runner(root, 'due');
  rmSync(database);
  runner(root, '15min');
  const passes = queryLog<{ count: number }>(root, `select count(*) as count from workers where tier = '15min'`);
  const isSamePeriod = Math.floor(before / 15) === Math.floor(new Date().getMinutes() / 15);
  if (isSamePeriod) expect(passes).toEqual([{ count: 2 }]);
  expect(existsSync(join(root, 'ran-15min'))).toBe(true);
});
