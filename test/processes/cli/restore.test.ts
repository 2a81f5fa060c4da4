import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { cronPlace, type Ended, runCommand, startCommand } from '../../support/command.ts';
import { listFaultPoints, runWithFault } from '../../support/faults/faults.ts';
import { sampleCases } from '../../support/faults/rounds.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemplate, makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const call = (root: string, ...args: readonly string[]): Ended =>
  runCommand([...args, '--root', root], { ...cronPlace(root), cwd: root });

const LONG = `console.log('x'.repeat(100_000))`;

/** A root with a run and a job in its backup, and more of both since. */
const makeRootWithBackup = makeTemplate({ 'jobs/hourly/a.mjs': LONG, 'jobs/queue/b.sh': 'echo b\n' }, (root) => {
  call(root, 'run', 'hourly/a');
  call(root, 'add', 'b', '{"n":1}');
  expect(call(root, 'backup', 'copy.db').status).toBe(0);
  call(root, 'work');
  call(root, 'run', 'hourly/a');
  call(root, 'add', 'b', '{"n":2}');
});

const jobsOf = (root: string) => queryLog(root, 'select id, state from jobs where tier is null order by id');
const before = [
  { id: 2, state: 'finished' },
  { id: 3, state: 'queued' },
];
const restored = [{ id: 2, state: 'queued' }];

const replacedIn = (root: string): string[] =>
  readdirSync(join(root, '.runner')).filter((name) => /^activity\.db\.replaced-[\d-]+$/.test(name));

test('the log is that of the backup again, and what it held before is kept beside it', () => {
  const root = makeRootWithBackup();
  expect(jobsOf(root)).toEqual(before);
  const outputs = readdirSync(join(root, '.runner/output')).length;
  const { status, stdout, stderr } = call(root, 'restore', 'copy.db');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(
    /^Restored the activity log of .* from .*copy\.db\. The previous one is kept in \.runner\/activity/,
  );
  expect(jobsOf(root)).toEqual(restored);
  expect(queryLog(root, 'select count(*) as runs from runs')).toEqual([{ runs: 1 }]);
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  const [replaced = ''] = replacedIn(root);
  const path = join(root, '.runner', replaced);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const kept = new Database(path, { readonly: true });
  expect(kept.prepare('select count(*) from runs').pluck().get()).toBe(3);
  kept.close();
  // Each long output is where the log that names it is looked for.
  expect(readdirSync(join(root, '.runner/output'))).toHaveLength(outputs - 1);
  expect(readdirSync(`${path}.output`)).toHaveLength(1);
  expect(call(root, 'show', '1').stdout).toContain('xxx');
});

test('what waits in it is processed, new numbers begin after the highest ever given, and it can be undone', () => {
  const root = makeRootWithBackup();
  call(root, 'restore', 'copy.db');
  expect(call(root, 'work').status).toBe(0);
  expect(call(root, 'add', 'b').stdout).toContain('Added job 4 (b)');
  const workers = queryLog<{ id: number }>(root, 'select id from workers order by id').map(({ id }) => id);
  expect(workers.at(-1)).toBeGreaterThan(3);
  const [replaced = ''] = replacedIn(root);
  expect(call(root, 'restore', join('.runner', replaced)).status).toBe(0);
  expect(jobsOf(root)).toEqual(before);
});

test('a root without a log takes one, and keeps nothing', () => {
  const root = makeRootWithBackup();
  const other = makeTemporaryRoot({ 'jobs/hourly/a.mjs': '' });
  expect(call(other, 'restore', join(root, 'copy.db')).status).toBe(0);
  expect(jobsOf(other)).toEqual(restored);
  expect(replacedIn(other)).toEqual([]);
});

test('a damaged log is set aside, and the backup takes its place', () => {
  const root = makeRootWithBackup();
  truncateSync(join(root, '.runner/activity.db'), 5000);
  const { status, stderr } = call(root, 'restore', 'copy.db');
  expect(status).toBe(0);
  expect(stderr).toMatch(/^Note: .* was damaged/);
  expect(jobsOf(root)).toEqual(restored);
});

test('whoever has the log open sees the restored one', async () => {
  const root = makeRootWithBackup();
  const open = await openSqliteOf(root);
  const jobs = () => open.connection.prepare('select id, state from jobs where tier is null order by id').all([]);
  expect(jobs()).toEqual(before);
  expect(call(root, 'restore', 'copy.db').status).toBe(0);
  expect(jobs()).toEqual(restored);
});

describe('nothing is changed', () => {
  test.each<[string, (root: string, file: string) => void, RegExp]>([
    ['a file that is missing', () => {}, /There is no file .*other\.db; name a backup of the log\.\n$/],
    ['a folder', (_, file) => mkdirSync(file), /is not a file; name a backup of the log\.\n$/],
    [
      'an empty file',
      (_, file) => writeFileSync(file, ''),
      /is empty, so it is not a backup of a log; name another file\.\n$/,
    ],
    [
      'a text',
      (_, file) => writeFileSync(file, 'text '.repeat(2000)),
      /is damaged or not a database .* The log was not/,
    ],
    [
      'another database',
      (_, file) => makeForeign(file),
      /is not a backup of an activity log: its application_id is 0\. The/,
    ],
    [
      'a damaged backup',
      (root, file) => damage(join(root, 'copy.db'), file),
      /is damaged.* The log was not changed; name another backup\.\n$/,
    ],
    [
      'one of a newer runner',
      (root, file) => makeNewer(join(root, 'copy.db'), file),
      /was made by a newer runner \(schema 99/,
    ],
  ])('by %s', (_, make, reason) => {
    const root = makeRootWithBackup();
    make(root, join(root, 'other.db'));
    const { status, stdout, stderr } = call(root, 'restore', 'other.db');
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(reason);
    expect(jobsOf(root)).toEqual(before);
    expect(readdirSync(join(root, '.runner')).filter((name) => /restore|replaced/.test(name))).toEqual([]);
  });

  test('by the log itself', () => {
    const root = makeRootWithBackup();
    expect(call(root, 'restore', '.runner/activity.db')).toMatchObject({ status: 2 });
  });

  test('while a pass runs', async () => {
    const root = makeRootWithBackup();
    writeFileSync(
      join(root, 'jobs/hourly/wait.mjs'),
      `import { existsSync } from 'node:fs';
      process.stdout.write('waiting'); while (!existsSync('go')) await new Promise((done) => setTimeout(done, 20));`,
    );
    const pass = startCommand(['--root', root, 'hourly'], cronPlace(root));
    await until('it runs', () => call(root, 'status').stdout.includes('hourly/wait · for'));
    const { status, stderr } = call(root, 'restore', 'copy.db');
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^runner: Not now: a pass of hourly \(pid \d+ on \S+\) is running\. After `npx folder-runner pause`/,
    );
    writeFileSync(join(root, 'go'), '');
    expect((await pass.ended).status).toBe(0);
    expect(call(root, 'restore', 'copy.db').status).toBe(0);
  });

  test('where the log is on a server', () => {
    const root = makeTemporaryRoot();
    const env = { ...cronPlace(root).env, RUNNER_DATABASE_URL: 'postgres://x:secret@127.0.0.1:1/x' };
    const { status, stderr } = runCommand(['restore', 'copy.db'], { cwd: root, env });
    expect(status).toBe(2);
    expect(stderr).toMatch(/^runner: The activity log is on a database server, which has its own tools/);
  });
});

test('killed before any step, the log is the one or the other, and whole', async () => {
  const one = makeRootWithBackup();
  const points = await listFaultPoints(one, ['restore', join(one, 'copy.db')]);
  const steps = points
    .slice(points.indexOf('sql attach#1'))
    .filter((point) => /^(?:fs\.|sql (?:begin|drop|commit|vacuum|detach))/.test(point));
  expect(steps.length).toBeGreaterThan(10);
  for (const point of sampleCases(steps)) {
    const root = makeRootWithBackup();
    await runWithFault(root, ['restore', join(root, 'copy.db')], { at: `before ${point}` });
    expect([before, restored]).toContainEqual(jobsOf(root));
    expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(call(root, 'restore', 'copy.db').status).toBe(0);
    expect(jobsOf(root)).toEqual(restored);
    expect(existsSync(join(root, '.runner/activity.restore'))).toBe(false);
  }
}, 240_000);

function makeForeign(file: string): void {
  const other = new Database(file);
  other.exec('create table jobs (id)');
  other.close();
}

/** In the middle, where pages of tables are. */
function damage(copy: string, file: string): void {
  const content = readFileSync(copy);
  content.fill(0xff, 8192, content.length - 4096);
  writeFileSync(file, content);
}

function makeNewer(copy: string, file: string): void {
  writeFileSync(file, readFileSync(copy));
  const other = new Database(file);
  other.pragma('user_version = 99');
  other.close();
}
