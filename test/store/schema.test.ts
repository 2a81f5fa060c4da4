import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { Database } from '../../src/store/store.ts';
import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { running, writeLog } from '../support/written-log.ts';

const NOON = Date.UTC(2026, 10, 1, 12);

function execute(db: Database, statement: string): Promise<unknown> {
  return sql.raw(statement).execute(db);
}

const aWorker = (columns: string, values: string): string =>
  `insert into workers (kind, host, pid, started_at, runner_version, node_version, ${columns})
   values ('tier', 'web3', 1, 0, '0', '0', ${values})`;
const aJob = (state: string): string =>
  `insert into jobs (name, state, run_at, created_at) values ('hourly/a', ${state}, 0, 0)`;
const aRun = (columns: string, values: string): string =>
  `insert into runs (job_id, worker_id, script, attempt, started_at, ${columns})
   values (1, 1, 'hourly/a', 1, 0, ${values})`;

test.each([
  ['a worker in an unknown state', aWorker('state', `'sleeping'`)],
  ['a worker without a state', aWorker('state', 'null')],
  ['a job in an unknown state', aJob(`'done'`)],
  ['a run with an unknown outcome', aRun('outcome', `'fine'`)],
  ['a run measured in an unknown way', aRun('outcome, measured_by', `'failed', 'guessed'`)],
  [
    'a run of a job that is not there',
    aRun('outcome, id', `'failed', 7`).replace('(1, 1', '(9, 1'),
  ],
])('%s is refused', async (_what, statement) => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await execute(db, aWorker('state', `'running'`));
  await execute(db, aJob(`'running'`));
  await execute(db, aRun('outcome', `'running'`));
  await expect(execute(db, statement)).rejects.toThrow(
    /(CHECK|NOT NULL|FOREIGN KEY) constraint failed/,
  );
});

test('two workers cannot run one tier, whatever the program around the table does', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await execute(db, aWorker('state, tier', `'running', 'hourly'`));
  await expect(execute(db, aWorker('state, tier', `'running', 'hourly'`))).rejects.toThrow(
    'UNIQUE constraint failed: workers.tier',
  );
  await execute(db, aWorker('state, tier', `'running', 'daily'`));
  await execute(db, aWorker('state, tier', `'skipped', 'hourly'`));
});

test('a job takes its runs with it', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/a', NOON);
  await addRun('hourly/b', NOON);
  await db.deleteFrom('jobs').where('name', '=', 'hourly/a').execute();
  expect(await db.selectFrom('runs').select('script').execute()).toEqual([{ script: 'hourly/b' }]);
});

test('a worker cannot go before its runs', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/a', NOON);
  await expect(db.deleteFrom('workers').execute()).rejects.toThrow('FOREIGN KEY');
});

test('runs_readable shows times and sizes for people, newest first', async () => {
  const { db, addRun } = await writeLog(makeTemporaryRoot());
  await addRun('hourly/old', NOON, {
    duration_ms: 1250.4,
    user_cpu_ms: 40.4,
    system_cpu_ms: 10.4,
    max_rss_bytes: 10.5 * 1_048_576,
    finished_at: NOON + 1234,
  });
  await addRun('hourly/new', NOON + 60_000, { ...running });
  const { rows } = await sql`select * from runs_readable`.execute(db);
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
