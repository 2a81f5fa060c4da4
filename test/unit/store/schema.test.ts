import { readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Connection, Driver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { NewJobRow } from '../../../src/store/statements/jobs.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf, openSqliteOf } from '../../support/store.ts';
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

/** Notes each statement that is run. */
function recording(driver: Driver, texts: string[]): Driver {
  const prepareOf =
    (connection: Connection): Connection['prepare'] =>
    (text) => {
      const statement = connection.prepare(text);
      const noted =
        <Args extends unknown[], Answer>(work: (...args: Args) => Answer) =>
        (...args: Args): Answer => {
          texts.push(text.split(' ').slice(0, 2).join(' '));
          return work(...args);
        };
      return {
        reader: statement.reader,
        all: noted((values: readonly unknown[]) => statement.all(values)),
        run: noted((values: readonly unknown[]) => statement.run(values)),
        iterate: (values: readonly unknown[]) => statement.iterate(values),
      };
    };
  return {
    ...driver,
    open: (...place) => {
      const connection = driver.open(...place);
      return Object.create(connection, {
        prepare: { value: prepareOf(connection) },
        inTransaction: { get: () => connection.inTransaction },
      });
    },
  };
}

const job: NewJobRow = {
  ...{ name: 'mail/welcome', state: 'queued', data: '{"to":"a@example.org"}', priority: 500, missed_policy: 'all' },
  ...{ scheduled_for: null, run_at: 1_773_147_600_000, created_at: 1_773_147_600_000, retry: null, repeat: null },
  ...{ unique_key: null, concurrency_key: null, parent_id: null, on_child_failure: null, lease_ms: null },
};

const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** Of a WAL that was never begun anew. */
function countPages(path: string): number {
  const wal = readFileSync(path);
  return (wal.length - WAL_HEADER_BYTES) / (FRAME_HEADER_BYTES + wal.readUInt32BE(8));
}

describe.each(drivers)('with %s', (_name, driver) => {
  test('adding a job is one statement beside the beginning and the end of its transaction', async () => {
    const texts: string[] = [];
    const folder = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(folder, { driver: recording(driver, texts) });
    onTestFinished(() => store.close());
    const add = () => store.transaction(({ jobs }) => jobs.add([job], job.run_at));
    await add();
    texts.length = 0;
    const before = countPages(`${folder.database}-wal`);
    for (let index = 0; index < 100; index += 1) await add();
    expect(texts.slice(0, 3)).toEqual(['begin immediate', 'insert into', 'commit']);
    expect(texts.length).toBe(300);
    // The row, its number, two indexes of due jobs and one of the times of adding, and now and then a page that is split.
    expect((countPages(`${folder.database}-wal`) - before) / 100).toBeLessThan(5.6);
  });
});
