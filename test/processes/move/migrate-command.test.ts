import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openQueue } from 'folder-runner';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { cronEnv, type Ended, runCommand, startCommand } from '../../support/command.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { dumpLog, writeHostileLog } from '../../support/foreign.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runSite, siteLanguages } from '../../support/site.ts';
import { until } from '../../support/until.ts';

let server: OwnServer;
let places = 0;

beforeAll(async () => {
  server = await startOwnPostgres();
}, 120_000);

afterAll(() => server?.stop());

interface Site {
  readonly root: string;
  readonly url: string;
  /** A file that holds the address. */
  readonly file: string;
  run(args: readonly string[], env?: NodeJS.ProcessEnv): Ended;
}

function makeSite(files: Readonly<Record<string, string>> = {}): Site {
  const root = makeTemporaryRoot(files);
  places += 1;
  const url = server.url(`?schema=site_${places}`);
  const file = join(root, 'database-url');
  writeFileSync(file, `${url}\n`, { mode: 0o600 });
  const run: Site['run'] = (args, env = {}) =>
    runCommand(args, { cwd: root, env: { ...cronEnv(root), TZ: 'UTC', ...env } });
  return { root, url, file, run };
}

test('a log moves, what runs before cron knows of it is not lost, and it comes back with all that happened', () => {
  const { root, url, file, run } = makeSite({ 'jobs/nightly/hello.mjs': 'console.log("hello")' });
  run(['nightly']);
  const dry = run(['migrate', '--to', file, '--dry-run']);
  expect(dry.stdout).toMatch(/^ {2}hosts +1$/m);
  expect(dry.stdout).toMatch(
    /^Would move \d+ rows of \d+ tables from .*activity\.db to the database .*Nothing was changed\.$/m,
  );
  const moved = run(['migrate', '--to', file]);
  expect(moved).toMatchObject({ status: 0, stderr: '' });
  expect(moved.stdout).toMatch(
    /^Moved \d+ rows of \d+ tables to the database postgres \(schema site_\d+\) on localhost:\d+ in/,
  );
  expect(moved.stdout).toContain(`${stateFolderOf(root).database} keeps what it had, and takes no more.`);
  expect(moved.stdout).not.toContain('test-pass-word');
  // Cron's own lines do not name the database yet.
  const unaware = run(['nightly']);
  expect(unaware.stderr).toMatch(
    /activity\.db was moved to the database .* on localhost:\d+: set RUNNER_DATABASE_URL here, too/,
  );
  expect(run(['add', 'mail', '{}'])).toMatchObject({ status: 1 });
  const aware = { RUNNER_DATABASE_URL: url };
  expect(run(['nightly'], aware)).toMatchObject({ status: 0 });
  const back = run(['migrate', '--to', 'sqlite', '--json'], aware);
  expect(back).toMatchObject({ status: 0, stderr: '' });
  expect(JSON.parse(back.stdout)).toMatchObject({
    dryRun: false,
    tables: expect.arrayContaining([{ table: 'runs', rows: 3, checksum: expect.stringMatching(/^[0-9a-f]{16}$/) }]),
    notes: [],
  });
  expect(dumpLog(stateFolderOf(root).database).runs).toHaveLength(3);
  expect(run(['nightly'])).toMatchObject({ status: 0, stderr: '' });
  expect(run(['nightly'], aware).stderr).toMatch(/The log was moved away from the database/);
});

test('killed at any instant, the next call goes on, also with what was changed meanwhile', async () => {
  const { root, url, file, run } = makeSite();
  await writeHostileLog(root);
  const { database } = stateFolderOf(root);
  let kills = 0;
  // As many kills on a machine that is ten times slower, within ten times the time and not a hundred times.
  for (let delayMs = 120; ; delayMs *= 1.15) {
    const started = startCommand(['migrate', '--to', file], { cwd: root, env: cronEnv(root) });
    const timer = setTimeout(() => started.kill('SIGKILL'), delayMs);
    const { status, stderr } = await started.ended;
    clearTimeout(timer);
    // Killed as it had just ended: there is nothing left to do.
    if (status === 0 || /The log was moved away from .* already;/.test(stderr)) break;
    expect(status, stderr).toBeNull();
    kills += 1;
    changeUnlessMoved(database, kills);
  }
  expect(kills).toBeGreaterThan(3);
  const moved = dumpLog(database);
  expect(run(['migrate', '--to', 'sqlite'], { RUNNER_DATABASE_URL: url })).toMatchObject({ status: 0, stderr: '' });
  expect(dumpLog(database)).toEqual(moved);
}, 180_000);

const TOLD = /this log was moved to the database postgres \(schema site_\d+\) on localhost:\d+, and takes no more here/;

test('once it has moved, whoever still uses the file is told where the log is, and adds nothing', async () => {
  const { root, file, run } = makeSite({ 'jobs/queue/mail/welcome.mjs': 'export default () => {};' });
  run(['init']);
  const { database } = stateFolderOf(root);
  const openBefore = await openQueue({ root });
  onTestFinished(() => openBefore.close());
  await openBefore.add('mail/welcome');
  const before = dumpLog(database);
  expect(run(['migrate', '--to', file])).toMatchObject({ status: 0, stderr: '' });
  const told = /activity\.db was moved to the database postgres \(schema site_\d+\) on localhost:\d+: /;
  await expect(openBefore.add('mail/welcome')).rejects.toThrow(told);
  await expect(openQueue({ root })).rejects.toThrow(told);
  const plain = new Database(database);
  onTestFinished(() => void plain.close());
  for (const verb of ['insert', 'insert or ignore', 'insert or replace', 'replace']) {
    expect(() => plain.exec(`${verb} into jobs (name) values ('late')`)).toThrow(TOLD);
  }
  for (const { command } of siteLanguages()) {
    for (const asked of [['add'], ['get', 1]]) {
      const { status, stderr } = runSite(root, command, ...asked);
      expect(status).not.toBe(0);
      expect(stderr).toMatch(
        /activity\.db was moved to the database postgres .*: jobs added here would never run\. Add them/,
      );
      expect(stderr).not.toContain('test-pass-word');
    }
  }
  expect(dumpLog(database).jobs).toEqual(before.jobs);
});

/** As a site that goes on. */
function changeUnlessMoved(path: string, kills: number): void {
  const database = new Database(path);
  try {
    database.exec(`insert into jobs (name, state, ready, finished_at) values ('added ${kills}', 'finished', null, 5);
      update jobs set reason = 'changed ${kills}' where id % 10 = ${kills % 10};
      delete from events where id = ${kills}`);
  } catch (error) {
    expect((error as Error).message).toContain('this log was moved');
  } finally {
    database.close();
  }
}

test('what is wrong is told in a sentence, which never holds a password', () => {
  const { root, file, run } = makeSite();
  mkdirSync(join(root, '.runner'), { recursive: true });
  const refusals: readonly (readonly [readonly string[], RegExp, NodeJS.ProcessEnv?])[] = [
    [[], /^runner: `npx folder-runner migrate` needs --to: /],
    [
      ['--to', 'nowhere'],
      /^runner: --to must be `sqlite`, the name of an environment variable .*; "nowhere" is none of these, or not set\.$/,
    ],
    [
      ['--to', 'postgres://a:secret@h/d'],
      /^runner: --to holds a password, which `ps` and the history of your shell show/,
    ],
    [['--to', 'PLACE'], /^runner: PLACE is not the address of a database: expected postgres:\/\//, { PLACE: 'secret' }],
    [['--to', 'sqlite'], /^runner: The log is in the SQLite file already: RUNNER_DATABASE_URL is not set\./],
    [['--to', file, '--from', file], /^runner: --from and --to name the same database; name two different ones\.$/],
    [['--to', file, '--wait', 'long'], /^runner: --wait must be a duration such as 30s or 10m, found "long"\.$/],
    [['--to', file], /^runner: No log to move was found at .*activity\.db; say with --from where it is\.$/],
    [['--reopen'], /^runner: No log was moved away from .*activity\.db, so nothing was changed\.$/],
    [['--to', './missing'], /^runner: --to names .*missing, which cannot be read/],
  ];
  for (const [args, sentence, env] of refusals) {
    const { status, stdout, stderr } = run(['migrate', ...args], env);
    expect(stderr.trimEnd()).toMatch(sentence);
    expect(stderr).not.toContain('secret');
    expect(stdout).toBe('');
    expect([1, 2]).toContain(status);
  }
});

test('a pass that runs keeps the log from being moved, until it has ended', async () => {
  const { root, file, run } = makeSite({
    'jobs/hourly/waits.mjs': `import { existsSync } from 'node:fs';
      while (!existsSync('go')) await new Promise((done) => setTimeout(done, 20));`,
  });
  const pass = startCommand(['hourly'], { cwd: root, env: cronEnv(root) });
  const { database } = stateFolderOf(root);
  const isRunning = (): boolean => {
    const log = new Database(database, { readonly: true });
    try {
      return log.prepare(`select 1 from workers where state = 'running'`).get() !== undefined;
    } finally {
      log.close();
    }
  };
  await until('the pass runs', () => existsSync(database) && isRunning());
  const refused = run(['migrate', '--to', file]);
  expect(refused.stderr).toMatch(
    new RegExp(
      `^runner: Something is still running, .*: hourly \\(pid ${pass.pid} on .*Wait for its end with --wait 10m`,
    ),
  );
  expect(refused.status).toBe(1);
  const waiting = startCommand(['migrate', '--to', file, '--wait', '1m'], { cwd: root, env: cronEnv(root) });
  writeFileSync(join(root, 'go'), '');
  expect(await pass.ended).toMatchObject({ status: 0 });
  expect(await waiting.ended).toMatchObject({ status: 0, stderr: '' });
}, 120_000);
