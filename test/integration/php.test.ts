import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { cronEnv, type Ended, runCommand, type Started, startCommand, startProcess } from '../support/command.ts';
import type { LoggedJob, LoggedRun } from '../support/engines/engine.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { type ExamplePlace, makeExamplePlace, readExamples, writeExampleFile } from '../support/site.ts';
import { until } from '../support/until.ts';

const COUNT = 200;
const OTHERS = 3;

/** Says in a file of its own what it was given, so that nobody has to believe the log. */
const handler = `import { appendFileSync } from 'node:fs';
export default ({ id, name, data }) => {
  appendFileSync('evidence.jsonl', JSON.stringify({ id, name, data, at: Date.now() }) + '\\n');
  return { id };
};
`;

/** The same in PHP: the job comes on stdin, the last line is the result. */
const phpHandler = `<?php
['id' => $id, 'name' => $name, 'data' => $data] = json_decode(stream_get_contents(STDIN), true);
$told = ['id' => $id, 'name' => $name, 'data' => $data, 'at' => (int) (microtime(true) * 1000)];
file_put_contents('evidence.jsonl', json_encode($told) . "\\n", FILE_APPEND);
echo "done\\n", json_encode(['id' => $id]), "\\n";
`;

const handlers = {
  'jobs/queue/mail/later.php': phpHandler,
  ...Object.fromEntries(['welcome', 'once', 'shell', 'never'].map((name) => [`jobs/queue/mail/${name}.mjs`, handler])),
};

interface Evidence {
  readonly id: number;
  readonly name: string;
  readonly data: { readonly n?: number };
  readonly at: number;
}

test('jobs that PHP and the sqlite3 shell add while two workers run are executed once each', async () => {
  const root = makeTemporaryRoot(handlers);
  const workers = [startWorker(root), startWorker(root)];
  await until('both work', () => countRunningWorkers(root) === 2);

  const [php, shell] = await Promise.all([addByPhp(root), addByShell(root)]);
  await until('all is done', () => readEvidence(root).length >= COUNT + OTHERS);
  await until('and told', () => countUnfinished(root) === 0);
  for (const worker of workers) worker.kill('SIGTERM');
  const ended = await Promise.all(workers.map((worker) => worker.ended));

  expect(ended).toMatchObject([{ status: 0 }, { status: 0 }]);
  expectAdded(php, shell);
  expectExecutedOnce(root);
  expectToldCompletely(root);
});

test('the handler in PHP that a page shows ends its own jobs', () => {
  const place = makeExamplePlace();
  writeNamed(place, 'docs/handlers.md', 'jobs/queue/order.php');
  const runner = (...args: readonly string[]) => runCommand(args, { cwd: place.root, env: place.env });
  for (const data of ['{"customer":7}', '{}']) expect(runner('add', 'order', data).status).toBe(0);
  expect(runner('work')).toEqual({ status: 0, stdout: '', stderr: '' });
  writeFileSync(join(place.root, 'closed'), '');
  expect(runner('add', 'order', '{"customer":8}').status).toBe(0);
  expect(runner('work')).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(queryLog(place.root, 'select state, result, reason, attempts from jobs order by id')).toEqual([
    { state: 'finished', result: '{"invoice":"7-1"}', reason: null, attempts: 1 },
    { state: 'failed', result: null, reason: 'it has no customer', attempts: 1 },
    { state: 'retrying', result: null, reason: 'the shop is closed', attempts: 0 },
  ]);
});

test('the worker in PHP that a page shows works off its jobs', async () => {
  const place = makeExamplePlace();
  writeExampleFile(place, 'jobs/README.md', '');
  writeNamed(place, 'docs/queue.md', 'mail-worker.php');
  const lines = ['a@example.org', 'nobody', 'b@example.org'].map((to) =>
    JSON.stringify({ name: 'mail/welcome', data: { to } }),
  );
  const added = runCommand(['add', '--many'], { cwd: place.root, env: place.env, input: lines.join('\n') });
  expect(added.status).toBe(0);
  const { ended } = startProcess('/usr/bin/php', ['mail-worker.php'], { cwd: place.root, env: place.env });
  expect(await ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(queryLog(place.root, 'select state, result, reason from jobs order by id')).toEqual([
    { state: 'finished', result: '{"sent":true}', reason: null },
    { state: 'failed', result: null, reason: 'nobody is no address' },
    { state: 'finished', result: '{"sent":true}', reason: null },
  ]);
});

function writeNamed(place: ExamplePlace, page: string, file: string): void {
  const example = readExamples(page).find((each) => each.file === file);
  writeExampleFile(place, file, example?.content ?? '');
}

function startWorker(root: string): Started {
  const args = ['--root', root, 'work', '--for', '40s', '--max-jobs', String(COUNT + OTHERS)];
  return startCommand(args, { cwd: '/', env: cronEnv(root) });
}

function addByPhp(root: string): Promise<Ended> {
  const script = join(import.meta.dirname, 'add-jobs.php');
  const { database } = stateFolderOf(root);
  const place = { cwd: root, env: cronEnv(root) };
  return startProcess('/usr/bin/php', [script, database, String(COUNT)], place).ended;
}

function addByShell(root: string): Promise<Ended> {
  const insert = `INSERT INTO jobs (name, data) VALUES ('mail/shell', json_object('n', 0));
    SELECT state FROM jobs WHERE name = 'mail/shell'`;
  const args = ['-cmd', '.timeout 15000', stateFolderOf(root).database, insert];
  return startProcess('/usr/bin/sqlite3', args, { cwd: root, env: cronEnv(root) }).ended;
}

function expectAdded(php: Ended, shell: Ended): void {
  const refused = 'SQLSTATE[23000]: Integrity constraint violation: 19 CHECK constraint failed: ';
  expect(php).toEqual({
    status: 0,
    stderr: '',
    stdout: [
      'once 1: 1',
      'once 2: 0',
      `data: ${refused}a job's data is JSON of at most 1 MiB`,
      `data once: ${refused}a job's data is JSON of at most 1 MiB`,
      `priority: ${refused}a job's priority is a whole number from -9007199254740991 to 9007199254740991`,
      `run_at: ${refused}a job's run_at is in milliseconds since 1970`,
      `name: ${refused}a job's name is text of 1 to 255 characters`,
      '',
    ].join('\n'),
  });
  expect(shell).toMatchObject({ status: 0, stderr: '' });
  expect(['queued\n', 'running\n', 'finished\n']).toContain(shell.stdout);
}

function expectExecutedOnce(root: string): void {
  const evidence = readEvidence(root);
  const named = (wanted: string) => evidence.filter(({ name }) => name === `mail/${wanted}`);
  const numbers = named('welcome').map(({ data }) => data.n ?? 0);
  expect(numbers.sort((one, other) => one - other)).toEqual(Array.from({ length: COUNT }, (_, index) => index + 1));
  expect(new Set(evidence.map(({ id }) => id)).size).toBe(COUNT + OTHERS);
  expect(named('later')).toMatchObject([{ data: { to: "O'Hara <a@example.org>", ü: 'ß' } }]);
  expect([named('once').length, named('shell').length, named('never').length]).toEqual([1, 1, 0]);
  const [later] = queryLog<LoggedJob>(root, "select * from jobs where name = 'mail/later'");
  expect(later).toMatchObject({ priority: 750 });
  expect(named('later')[0]?.at).toBeGreaterThanOrEqual(later?.run_at ?? Number.NaN);
}

function expectToldCompletely(root: string): void {
  const jobs = queryLog<LoggedJob>(root, 'select * from jobs order by id');
  expect(jobs).toHaveLength(COUNT + OTHERS);
  for (const job of jobs) {
    expect(job).toMatchObject({ state: 'finished', attempts: 1, claim_token: null });
    expect(job.result).toBe(JSON.stringify({ id: job.id }));
    const runs = queryLog<LoggedRun>(root, 'select * from runs where job_id = ?', job.id);
    expect(runs).toMatchObject([{ outcome: 'succeeded', script: `queue/${job.name}`, attempt: 1 }]);
    expect(eventsOf(root, job.id)).toEqual(['job-queued', 'run-started', 'job-finished']);
  }
  expect(queryLog(root, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
}

function eventsOf(root: string, jobId: number): string[] {
  const query = 'select event from activity where job_id = ? order by id';
  return queryLog<{ event: string }>(root, query, jobId).map(({ event }) => event);
}

function readEvidence(root: string): Evidence[] {
  const path = join(root, 'evidence.jsonl');
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function countRunningWorkers(root: string): number {
  if (!existsSync(stateFolderOf(root).database)) return 0;
  return queryLog(root, "select 1 from workers where state = 'running' and kind = 'queue'").length;
}

function countUnfinished(root: string): number {
  return queryLog(root, 'select 1 from jobs where finished_at is null').length;
}
