import { expect, test } from 'vitest';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';
import { running, writeLog } from '../../support/written-log.ts';

const NOON = Date.UTC(2026, 10, 1, 12);

const aWorker = (columns: string, values: string): string =>
  `insert into workers (kind, host_id, pid, started_at, ${columns}) values ('tier', 1, 1, 0, ${values})`;
const aJob = (columns: string, values: string): string =>
  `insert into jobs (name, tier, ready, ${columns}) values ('hourly/a', 'hourly', null, ${values})`;
const aRun = (columns: string, values: string): string =>
  `insert into runs (job_id, script_id, attempt, started_at, ${columns}) values (1, 1, 1, 0, ${values})`;

test.each([
  ['a worker in an unknown state', aWorker('state', `'sleeping'`)],
  ['a worker without a state', aWorker('state', 'null')],
  ['a worker called by nobody known', aWorker('state, triggered_by', `'skipped', 'mail'`)],
  ['a job in an unknown state', aJob('state, id', `'done', 7`).replaceAll('/a', '/b')],
  ['a job that waits and is in no index', `insert into jobs (name, ready) values ('a', null)`],
  ['a run with an unknown outcome', aRun('outcome', `'fine'`)],
  ['a run measured in an unknown way', aRun('outcome, measured_by', `'failed', 'guessed'`)],
  ['a run of a job that is not there', aRun('outcome, id', `'failed', 7`).replace('(1, 1', '(9, 1')],
])('%s is refused', async (_what, statement) => {
  const { connection } = await openSqliteOf(makeTemporaryRoot());
  connection.exec(aWorker('state', `'running'`));
  connection.exec(aJob('state', `'running'`));
  connection.exec(aRun('outcome', `'running'`));
  expect(() => connection.exec(statement)).toThrow(/(CHECK|NOT NULL|FOREIGN KEY) constraint failed/);
});

test('two workers cannot run one tier, whatever the program around the table does', async () => {
  const { connection } = await openSqliteOf(makeTemporaryRoot());
  connection.exec(aWorker('state, tier', `'running', 'hourly'`));
  expect(() => connection.exec(aWorker('state, tier', `'running', 'hourly'`))).toThrow(
    'UNIQUE constraint failed: workers.tier',
  );
  connection.exec(aWorker('state, tier', `'running', 'daily'`));
  connection.exec(aWorker('state, tier', `'skipped', 'hourly'`));
});

test('a script cannot be queued twice, whatever the program around the table does', async () => {
  const { connection } = await openSqliteOf(makeTemporaryRoot());
  connection.exec(aJob('state', `'queued'`));
  expect(() => connection.exec(aJob('state', `'queued'`))).toThrow("UNIQUE constraint failed: index 'jobs_of_scripts'");
});

test('a job takes its runs with it, and those their output', async () => {
  const root = makeTemporaryRoot();
  const { change, addRun } = await writeLog(root);
  await addRun('hourly/a', NOON, { output: 'a', output_bytes: 1 });
  await addRun('hourly/b', NOON, { output: 'b', output_bytes: 1 });
  change(`delete from jobs where name = 'hourly/a'`);
  expect(queryLog(root, 'select script, output from runs')).toEqual([{ script: 'hourly/b', output: 'b' }]);
  expect(queryLog(root, 'select output from outputs')).toEqual([{ output: 'b' }]);
});

test('runs_readable shows times and sizes for people, newest first', async () => {
  const root = makeTemporaryRoot();
  const { addRun } = await writeLog(root);
  await addRun('hourly/old', NOON, {
    duration_us: 1_250_400,
    user_cpu_us: 40_400,
    system_cpu_us: 10_400,
    max_rss_bytes: 10.5 * 1_048_576,
    finished_at: NOON + 1234,
  });
  await addRun('hourly/new', NOON + 60_000, { ...running });
  const rows = queryLog(root, 'select * from runs_readable');
  const local = (at: number): string => new Date(at).toLocaleString('sv-SE');
  expect(rows).toEqual([
    expect.objectContaining({
      script: 'hourly/new',
      outcome: 'running',
      started: local(NOON + 60_000),
      finished: null,
      seconds: null,
      cpu_ms: null,
      max_rss_mib: null,
    }),
    expect.objectContaining({
      script: 'hourly/old',
      outcome: 'succeeded',
      started: local(NOON),
      finished: local(NOON + 1000),
      seconds: 1.25,
      cpu_ms: 51,
      max_rss_mib: 10.5,
      measured_by: 'self',
      exit_code: 0,
    }),
  ]);
});
