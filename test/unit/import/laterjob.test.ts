import { describe, expect, test } from 'vitest';
import { type ImportOptions, type ImportReport, importJobs } from '../../../src/queue/import/import-jobs.ts';
import { readLaterJob } from '../../../src/queue/import/laterjob.ts';
import { readExternalDatabase } from '../../../src/store/external/external-database.ts';
import type { JobRow } from '../../../src/store/schema.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { type LaterRows, makeLaterJob } from '../../support/foreign.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';

const NOW = Date.UTC(2026, 2, 10, 12);
const ID = 'a3bb189e-8bf9-3888-9912-ace4e6543002';

interface Taken {
  readonly store: SqliteStore;
  readonly report: ImportReport;
  readonly rows: readonly JobRow[];
}

async function takeOver(rows: LaterRows, options: Partial<ImportOptions> = {}): Promise<Taken> {
  const store = await openSqliteOf(makeTemporaryRoot());
  return await takeOverInto(store, makeLaterJob({ folder: makeTemporaryRoot() }, rows), options);
}

async function takeOverInto(store: SqliteStore, path: string, options: Partial<ImportOptions>): Promise<Taken> {
  const report = await readExternalDatabase(path, async (database) => {
    const queue = await readLaterJob(database, { withEnded: true, missed: 'all', ...options });
    return await importJobs(store, queue, { at: NOW, isDryRun: false, skipBad: false });
  });
  const rows = store.connection.prepare('select * from jobs').all([]) as JobRow[];
  return { store, report, rows };
}

describe('a job of LaterJob', () => {
  test('that was added is queued for when it was', async () => {
    const { rows } = await takeOver({ jobs: [{ job_id: ID, job_data: '{"to":"a"}' }] });
    const added = Date.UTC(2026, 2, 1, 8);
    expect(rows).toMatchObject([
      {
        name: 'later_job_queue',
        state: 'queued',
        data: '{"to":"a"}',
        priority: 500,
        created_at: added,
        run_at: added,
        attempts: 0,
        retry: '3',
        unique_key: `import:laterjob:${ID}`,
      },
    ]);
  });

  test.each([
    [1, 'queued'],
    [2, 'queued'],
    [3, 'finished'],
    [4, 'retrying'],
    [5, 'failed'],
  ])('in state %i is %s', async (state_id, state) => {
    const { rows } = await takeOver({ jobs: [{ job_id: ID, state_id }] });
    expect(rows).toMatchObject([{ state }]);
  });

  test('that has ended is left out unless it is wanted', async () => {
    const jobs = [3, 5, 1].map((state_id) => ({ job_id: `${ID}${state_id}`, state_id }));
    const { rows, report } = await takeOver({ jobs }, { withEnded: false });
    expect(rows).toMatchObject([{ state: 'queued' }]);
    expect(report.leftOut).toEqual({ ended: 2, mocked: 0 });
  });

  test('that is to be tried again has its tries, its next time, and why it failed', async () => {
    const { rows } = await takeOver({
      jobs: [{ job_id: ID, state_id: 4, retry_count: 1, retry_last: '2026-03-01 10:00:00' }],
      transitions: [
        { job_id: ID, state_id: 2, dte_occured: '2026-03-01 08:01:00' },
        { job_id: ID, state_id: 4, dte_occured: '2026-03-01 08:02:00', transition_msg: 'first' },
        { worker_id: ID, state_id: 2, dte_occured: '2026-03-01 08:59:59' },
        { job_id: ID, state_id: 2, dte_occured: '2026-03-01 09:00:00' },
        { job_id: ID, state_id: 4, dte_occured: '2026-03-01 09:01:00', transition_msg: 'again' },
      ],
    });
    expect(rows).toMatchObject([
      {
        run_at: Date.UTC(2026, 2, 1, 10),
        started_at: Date.UTC(2026, 2, 1, 9),
        attempts: 2,
        // One more may fail, and the one after that ends it.
        retry: '3',
        reason: 'again',
        finished_at: null,
      },
    ]);
  });

  test('that has ended has when it did, and why', async () => {
    const { rows, report } = await takeOver({
      jobs: [{ job_id: ID, state_id: 5, retry_count: 0 }],
      transitions: [
        { job_id: ID, state_id: 2, dte_occured: '2026-03-01 08:01:00' },
        { job_id: ID, state_id: 5, dte_occured: '2026-03-01 08:02:00', transition_msg: 'gone' },
      ],
    });
    expect(rows).toMatchObject([{ finished_at: Date.UTC(2026, 2, 1, 8, 2), reason: 'gone', attempts: 1, retry: '0' }]);
    expect(report.notes).toEqual([]);
  });

  test.each([
    [1, '2026-03-01 08:30:00', Date.UTC(2026, 2, 1, 8, 30)],
    [2, '2026-03-01 08:30:00', Date.UTC(2026, 2, 1, 8, 30)],
    [4, '2026-03-01 08:30:00', Date.UTC(2026, 2, 1, 9)],
    [4, '2026-03-01 09:30:00', Date.UTC(2026, 2, 1, 9, 30)],
  ])('in state %i that is locked until %s is left to its worker until then', async (...row) => {
    const [state_id, lock_timeout, runAt] = row;
    const retry_last = '2026-03-01 09:00:00';
    const job = { job_id: ID, state_id, handle: ID, lock_timeout, retry_last };
    expect((await takeOver({ jobs: [job] })).rows).toMatchObject([{ run_at: runAt }]);
  });

  test('that was started is noted: its worker may still be at it', async () => {
    const { report } = await takeOver({ jobs: [{ job_id: ID, state_id: 2 }] });
    expect(report.notes).toMatchObject([{ note: expect.stringMatching(/^STARTED/), ids: [ID] }]);
  });

  test.each([
    ['JSON', '{"a":[1]}', { a: [1] }, null],
    ['a JSON number', '12345678901234567890', 12345678901234567000, null],
    ['nothing', null, null, null],
    ['a serialized array', 'a:1:{s:1:"a";i:1;}', 'a:1:{s:1:"a";i:1;}', /serialized by PHP/],
    ['a serialized object', 'O:3:"Job":1:{s:4:"\0*\0a";i:1;}', 'O:3:"Job":1:{s:4:"\0*\0a";i:1;}', /PHP/],
    ['a serialized text', 's:2:"hi";', 's:2:"hi";', /serialized by PHP/],
    ['plain text', 'send the mail', 'send the mail', /not JSON/],
    ['no text at all', '', '', /not JSON/],
  ])('with data that is %s', async (_what, job_data, data, note) => {
    const { rows, report } = await takeOver({ jobs: [{ job_id: ID, job_data }] });
    expect(JSON.parse(rows[0]?.data ?? '')).toEqual(data);
    const notes = note === null ? [] : [{ note: expect.stringMatching(note), ids: [ID] }];
    expect(report.notes).toMatchObject(notes);
  });

  test('has the name that is given to all of its queue', async () => {
    const { rows, report } = await takeOver({ jobs: [{ job_id: ID }] }, { name: 'mail/send' });
    expect(rows).toMatchObject([{ name: 'mail/send' }]);
    expect(report.names).toEqual(['mail/send']);
  });

  test('has times of the zone that is given, on both sides of a change of the clocks', async () => {
    const jobs = [
      { job_id: '1', dte_add: '2026-03-29 01:30:00' },
      { job_id: '2', dte_add: '2026-03-29 03:30:00' },
    ];
    const { rows } = await takeOver({ jobs }, { timeZone: 'Europe/Berlin' });
    const times = rows.map(({ created_at }) => created_at);
    expect(times).toEqual([Date.UTC(2026, 2, 29, 0, 30), Date.UTC(2026, 2, 29, 1, 30)]);
  });
});

test.each([
  ['its time', { dte_add: '31.12.2026' }, /its dte_add is "31\.12\.2026"/],
  ['its state', { state_id: 6 }, /its state_id is "6", expected 1 to 5/],
  ['its retries', { retry_count: 'many' }, /its retry_count is "many", not a whole number/],
  ['its data', { job_data: Buffer.from([0xc3, 0x28]) }, /its job_data is not UTF-8 text/],
  ['their size', { job_data: 'x'.repeat(1024 * 1024) }, /a job's data is JSON of at most 1 MiB/],
])('a job that is bad for %s keeps all others back', async (_what, bad, problem) => {
  const jobs = [{ job_id: '1', ...bad }, { job_id: '2' }];
  const { rows, report } = await takeOver({ jobs });
  expect(rows).toEqual([]);
  expect(report).toMatchObject({ isRefused: true, bad: [{ id: '1' }] });
  expect(report.bad[0]?.problem).toMatch(problem);
});

test('a second import of a copy adds nothing, and one of another queue does', async () => {
  const rows = { jobs: [{ job_id: ID }, { job_id: '2', state_id: 5 }] };
  const first = await takeOver(rows);
  const copy = makeLaterJob({ folder: makeTemporaryRoot() }, rows);
  const second = await takeOverInto(first.store, copy, {});
  expect(second.rows).toEqual(first.rows);
  expect(second.report).toMatchObject({ imported: {}, known: 2 });
  const others = { jobs: [{ job_id: '3' }] };
  const other = makeLaterJob({ folder: makeTemporaryRoot() }, others, 'mail');
  const third = await takeOverInto(first.store, other, { table: 'mail_queue' });
  expect(third.report).toMatchObject({ imported: { queued: 1 }, names: ['mail_queue'], notes: [] });
});

test('without the table of transitions it is said what is not known', async () => {
  const folder = makeTemporaryRoot();
  const schema = 'create table q (job_id, state_id, dte_add, retry_count, retry_last, job_data, handle, lock_timeout)';
  const path = makeLaterJob({ folder, schema }, { jobs: [] }, 'q');
  const store = await openSqliteOf(makeTemporaryRoot());
  const { report } = await takeOverInto(store, path, { table: 'q' });
  expect(report.notes).toMatchObject([{ note: expect.stringContaining('no table q_transition') }]);
});
