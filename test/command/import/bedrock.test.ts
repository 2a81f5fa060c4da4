import { describe, expect, test } from 'vitest';
import { readBedrock } from '../../../src/queue/import/bedrock.ts';
import { type ImportReport, importJobs } from '../../../src/queue/import/import-jobs.ts';
import { readExternalDatabase } from '../../../src/store/external/external-database.ts';
import type { ActivityView, JobRow } from '../../../src/store/schema.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { makeBedrock } from '../../support/foreign.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { openSqliteOf } from '../../support/store.ts';

const NOW = Date.UTC(2026, 2, 10, 12);

type Jobs = Parameters<typeof makeBedrock>[1];

interface Taken {
  readonly store: SqliteStore;
  readonly report: ImportReport;
  readonly rows: readonly JobRow[];
  again(jobs: Jobs, options?: Partial<Options>): Promise<Taken>;
}

interface Options {
  readonly withEnded: boolean;
  readonly skipBad: boolean;
  readonly isDryRun: boolean;
}

async function takeOver(jobs: Jobs, options: Partial<Options> = {}): Promise<Taken> {
  const store = await openSqliteOf(makeTemporaryRoot());
  return await takeOverInto(store, jobs, options);
}

async function takeOverInto(
  store: SqliteStore,
  jobs: Jobs,
  { withEnded = false, skipBad = false, isDryRun = false }: Partial<Options>,
): Promise<Taken> {
  const path = makeBedrock({ folder: makeTemporaryRoot() }, jobs);
  const report = await readExternalDatabase(path, async (database) => {
    const queue = readBedrock(database, { withEnded, missed: 'all' });
    return await importJobs(store, queue, { at: NOW, isDryRun, skipBad });
  });
  const rows = readAll<JobRow>(store, 'jobs');
  return { store, report, rows, again: (more, other = {}) => takeOverInto(store, more, other) };
}

const readAll = <Row = ActivityView>({ connection }: SqliteStore, table: string): Row[] =>
  connection.prepare(`select * from ${table}`).all([]) as Row[];

const noted = ({ report }: Taken): string[] => report.notes.map(({ note, ids }) => `${ids.join(', ')}: ${note}`);

describe('a job of Bedrock', () => {
  test('keeps what it has', async () => {
    const { rows, report } = await takeOver([
      {
        jobID: 1,
        name: 'www-prod/Send',
        data: '{"to":  "a@example.org", "big": 9007199254740993}',
        priority: 850,
        created: '2026-03-01 08:00:00',
        nextRun: '2026-04-02 00:42:42.123',
        lastRun: '2026-03-02 08:00:01',
        retryAfter: '+5 MINUTES',
      },
    ]);
    expect(rows).toMatchObject([
      {
        name: 'www-prod/Send',
        tier: null,
        state: 'queued',
        data: '{"to":  "a@example.org", "big": 9007199254740993}',
        priority: 850,
        created_at: Date.UTC(2026, 2, 1, 8),
        run_at: Date.UTC(2026, 3, 2, 0, 42, 42, 123),
        started_at: Date.UTC(2026, 2, 2, 8, 0, 1),
        scheduled_for: null,
        finished_at: null,
        attempts: 0,
        retry: null,
        lease_ms: 300_000,
        repeat: null,
        parent_id: null,
      },
    ]);
    expect(report).toMatchObject({ imported: { queued: 1 }, names: ['www-prod/Send'], notes: [] });
  });

  test('with a number beyond 2^53 is told from its neighbour', async () => {
    const taken = await takeOver([{ jobID: 9_007_199_254_740_993n }, { jobID: 9_007_199_254_740_992n }]);
    expect(taken.rows.map((row) => row.unique_key)).toEqual([
      'import:bedrock:9007199254740992@2026-03-01 08:00:00',
      'import:bedrock:9007199254740993@2026-03-01 08:00:00',
    ]);
  });

  test.each([
    ['QUEUED', 'queued', []],
    ['RUNNING', 'queued', [expect.stringMatching(/^7: RUNNING, so .* queued/)]],
    ['RUNQUEUED', 'queued', [expect.stringMatching(/^7: RUNQUEUED, so .* queued/)]],
    ['PAUSED', 'queued', [expect.stringMatching(/^7: PAUSED, but no child is left/)]],
    ['FINISHED', 'finished', []],
    ['FAILED', 'failed', []],
    ['CANCELLED', 'cancelled', []],
  ])('in state %s is %s', async (state, here, notes) => {
    const taken = await takeOver([{ jobID: 7, state }], { withEnded: true });
    expect(taken.rows.map((row) => row.state)).toEqual([here]);
    expect(noted(taken)).toEqual(notes);
  });

  test('that has ended is left out, and counted', async () => {
    const { rows, report } = await takeOver([
      { jobID: 1, state: 'FAILED' },
      { jobID: 2, state: 'FINISHED' },
      { jobID: 3 },
    ]);
    expect(rows).toHaveLength(1);
    expect(report).toMatchObject({ imported: { queued: 1 }, leftOut: { ended: 2 } });
  });

  test('that has ended keeps when it did, and its activity tells so', async () => {
    const failed = { jobID: 1, state: 'FAILED', lastRun: '2026-03-02 09:00:00' };
    const { rows, store } = await takeOver([failed], { withEnded: true });
    const endedAt = Date.UTC(2026, 2, 2, 9);
    expect(rows).toMatchObject([{ finished_at: endedAt }]);
    expect(readAll(store, 'activity').toSorted((one, other) => one.at - other.at)).toMatchObject([
      { event: 'job-queued', at: Date.UTC(2026, 2, 1, 8), job_id: 1 },
      { event: 'job-failed', at: endedAt, job_id: 1 },
      { event: 'job-imported', at: NOW, job_id: 1, detail: rows[0]?.unique_key },
    ]);
  });

  test('is due since 1970 where its time is before 1973: the log would take that for seconds', async () => {
    expect((await takeOver([{ jobID: 1, nextRun: '1970-02-01 00:00:00' }])).rows).toMatchObject([{ run_at: 0 }]);
  });

  test('keeps its rule word for word, and the time that it gave', async () => {
    const { rows } = await takeOver([
      {
        jobID: 1,
        repeat: 'SCHEDULED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS',
        state: 'RUNQUEUED',
        nextRun: '2026-03-09 07:00:00',
        data: '{"retryAfterCount":3,"a":12345678901234567890,"originalNextRun":"2026-03-09 06:00:00"}',
      },
    ]);
    expect(rows).toMatchObject([
      {
        repeat: 'SCHEDULED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS',
        run_at: Date.UTC(2026, 2, 9, 7),
        scheduled_for: Date.UTC(2026, 2, 9, 6),
        attempts: 3,
        data: '{"a":12345678901234567890}',
      },
    ]);
  });

  test('that was handed out ten times has one try left', async () => {
    const data = '{"retryAfterCount":10}';
    const { rows } = await takeOver([{ jobID: 1, data, retryAfter: '+1 HOUR' }]);
    expect(rows).toMatchObject([{ attempts: 9, data: '{}' }]);
  });

  test.each([
    ['HOURLY', 'FINISHED, +1 HOUR'],
    ['DAILY', 'FINISHED, +1 DAY'],
    ['WEEKLY', 'FINISHED, +7 DAYS'],
  ])('with %s is told what that means here', async (repeat, meaning) => {
    const taken = await takeOver([{ jobID: 4, repeat }]);
    expect(taken.rows).toMatchObject([{ repeat }]);
    expect(noted(taken)).toEqual([expect.stringContaining(`4: ${repeat} means ${meaning} here`)]);
  });

  test.each([
    ['+5 SECOND', 5_000],
    ['+10 HOUR', 36_000_000],
    ['+5 minutes', 300_000],
    ['+1 HOUR, +30 MINUTES', 5_400_000],
    ['+1 HOUR,-10 MINUTES', 3_000_000],
    ['+2 DAYS', 172_800_000],
    ['', null],
    ['10', null],
    ['+1 MONTH', null],
    ['+1 HOUR, +1 MONTH', null],
    ['+1 DAY, START OF DAY', null],
    ['WEEKDAY 1', null],
    ['-5 MINUTES', null],
    ['+5 MINUTES, -5 MINUTES', null],
  ])('with retryAfter %j has a lease of %s ms', async (retryAfter, leaseMs) => {
    const taken = await takeOver([{ jobID: 4, retryAfter }]);
    expect(taken.rows).toMatchObject([{ lease_ms: leaseMs }]);
    const note = expect.stringContaining(`4: retryAfter "${retryAfter}" is not a fixed time`);
    expect(noted(taken)).toEqual(leaseMs === null && retryAfter !== '' ? [note] : []);
  });

  test('that was made for a test is not run for real', async () => {
    const { rows, report } = await takeOver([{ jobID: 1, data: '{"mockRequest":true}' }]);
    expect([rows, report.leftOut]).toEqual([[], { ended: 0, mocked: 1 }]);
  });
});

describe('a family', () => {
  const parent = { jobID: 500, state: 'PAUSED', name: 'Parent', created: '2026-03-01 09:00:00' };
  const child = { parentJobID: 500, name: 'Child' };

  test('is kept together under new numbers, whatever the old ones are', async () => {
    const { rows } = await takeOver([
      { ...child, jobID: 3, state: 'RUNNING' },
      { ...child, jobID: 900, state: 'QUEUED' },
      parent,
      { jobID: 4, name: 'Other' },
    ]);
    const byName = (name: string) => rows.filter((row) => row.name === name);
    const [{ id } = { id: 0 }] = byName('Parent');
    expect(byName('Parent')).toMatchObject([{ state: 'paused', parent_id: null }]);
    expect(byName('Child')).toMatchObject([
      { state: 'queued', parent_id: id },
      { state: 'queued', parent_id: id },
    ]);
    expect(byName('Other')).toMatchObject([{ parent_id: null }]);
  });

  test('brings its ended children, of which the parent is to be told', async () => {
    const { rows, report } = await takeOver([
      parent,
      { ...child, jobID: 1, state: 'FINISHED' },
      { ...child, jobID: 2, state: 'CANCELLED' },
      { ...child, jobID: 3, state: 'FAILED' },
      { ...child, jobID: 4 },
      { jobID: 5, state: 'FAILED' },
    ]);
    const states = rows.map(({ state }) => state);
    expect(states).toEqual(['paused', 'finished', 'cancelled', 'failed', 'queued']);
    expect(report.leftOut.ended).toBe(1);
  });

  test('of a parent that was made for a test is not run for real', async () => {
    const mocked = { ...parent, data: '{"mockRequest":true}' };
    const { rows, report } = await takeOver([mocked, { ...child, jobID: 1 }, { jobID: 2 }]);
    expect(rows).toMatchObject([{ name: 'Mail' }]);
    expect(report.leftOut.mocked).toBe(2);
  });

  test('does not wait for a child that was made for a test', async () => {
    const mocked = { ...child, jobID: 1, data: '{"mockRequest":true}' };
    const { rows } = await takeOver([parent, mocked]);
    expect(rows).toMatchObject([{ name: 'Parent', state: 'queued' }]);
  });

  test('whose children have all ended waits no more', async () => {
    const taken = await takeOver([parent, { ...child, jobID: 1, state: 'FAILED' }]);
    expect(taken.rows).toMatchObject([{ state: 'queued' }, { state: 'failed' }]);
    expect(noted(taken)).toEqual([expect.stringContaining('500: PAUSED, but no child')]);
  });

  test('whose parent runs has its children wait for that', async () => {
    const running = { ...parent, state: 'RUNNING' };
    const { rows } = await takeOver([running, { ...child, jobID: 1, state: 'PAUSED' }]);
    expect(rows).toMatchObject([{ state: 'queued' }, { state: 'paused', parent_id: rows[0]?.id }]);
  });

  test('does not wait for a child that is left out', async () => {
    const bad = { ...child, jobID: 1, data: 'nonsense' };
    const taken = await takeOver([parent, bad], { skipBad: true });
    expect(taken.rows).toMatchObject([{ name: 'Parent', state: 'queued' }]);
    expect(taken.report.bad.map(({ id }) => id)).toEqual(['1']);
  });

  test('takes in a child that was left out before', async () => {
    const bad = { ...child, jobID: 1, data: 'nonsense' };
    const other = { ...child, jobID: 2 };
    const taken = await takeOver([parent, bad, other], { skipBad: true });
    const mended = await taken.again([parent, { ...bad, data: '{"a":1}' }, other]);
    expect(mended.report).toMatchObject({ imported: { queued: 1 }, known: 2 });
    expect(mended.rows.at(-1)).toMatchObject({ data: '{"a":1}', parent_id: taken.rows[0]?.id });
  });
});

describe('cannot be taken over, and keeps all others back:', () => {
  const parent = { jobID: 500, state: 'FAILED', name: 'Parent' };
  test.each([
    ['a time that is none', [{ jobID: 1, nextRun: '2026-02-30 00:00:00' }], /nextRun is "2026-02-30/],
    ['words for a time', [{ jobID: 1, nextRun: 'tomorrow' }], /its nextRun is "tomorrow", expected/],
    ['no time', [{ jobID: 1, nextRun: '' }], /it has no nextRun/],
    ['a wrong rule', [{ jobID: 1, repeat: 'FINISHED, WEEKDAY 7' }], /its repeat "FINISHED, WEEKDAY 7"/],
    ['data that is no JSON', [{ jobID: 1, data: '{"a":' }], /its data is not a JSON object/],
    ['data that is no object', [{ jobID: 1, data: '[1]' }], /its data is not a JSON object/],
    ['data of two megabytes', [{ jobID: 1, data: `{"a":"${'x'.repeat(2e6)}"}` }], /has 2000008 bytes/],
    ['bytes', [{ jobID: 1, data: Buffer.from([0xff, 0xfe]) }], /not (UTF-8 text|a JSON object)/],
    ['a name that is a way out', [{ jobID: 1, name: '../x' }], /A job's name must be/],
    ['a priority that is none', [{ jobID: 1, priority: 'high' }], /its priority is "high"/],
    ['an unknown state', [{ jobID: 1, state: 'SLEEPING' }], /its state "SLEEPING" is not known/],
    ['a lost parent', [{ jobID: 1, parentJobID: 9 }], /its parent 9 is not in the file/],
    ['a child that repeats', [parent, { jobID: 1, parentJobID: 500, repeat: 'HOURLY' }], /child and rep/],
    [
      'a child of a bad one',
      [
        { ...parent, nextRun: 'x' },
        { jobID: 1, parentJobID: 500 },
      ],
      /parent 500 ca/,
    ],
    [
      'a child that waits for a failed parent',
      [parent, { jobID: 1, parentJobID: 500, state: 'PAUSED' }],
      /it is PAUSED until its parent 500 finishes, which is FAILED/,
    ],
    [
      'a grandchild',
      [
        { jobID: 500, parentJobID: 2 },
        { jobID: 1, parentJobID: 500 },
        { jobID: 2, state: 'PAUSED' },
      ],
      /its parent 500 is a child itself/,
    ],
  ])('%s', async (_what, jobs, problem) => {
    const good = { jobID: 1000, name: 'Good' };
    const { rows, report, again } = await takeOver([...jobs, good]);
    expect(rows).toEqual([]);
    expect(report).toMatchObject({ isRefused: true, imported: {} });
    expect(report.bad.find(({ id }) => id === '1')?.problem).toMatch(problem);
    const skipped = await again([...jobs, good], { skipBad: true });
    expect(skipped.rows.map(({ name }) => name)).toContain('Good');
    expect(skipped.report.bad).toEqual(report.bad);
  });
});

describe('a second import', () => {
  const jobs = [
    { jobID: 1, name: 'One' },
    { jobID: 2, name: 'Two', repeat: 'FINISHED, +1 HOUR' },
    { jobID: 3, name: 'Three', state: 'FAILED' },
  ];

  test('of the same file adds nothing', async () => {
    const taken = await takeOver(jobs, { withEnded: true });
    const second = await taken.again(jobs, { withEnded: true });
    expect(second.rows).toEqual(taken.rows);
    expect(second.report).toMatchObject({ imported: {}, known: 3 });
  });

  test('brings what ended jobs the first one left', async () => {
    const taken = await takeOver(jobs);
    const second = await taken.again(jobs, { withEnded: true });
    expect(second.report).toMatchObject({ imported: { failed: 1 }, known: 2 });
  });

  test('does not bring back what has ended here since, even where its row is gone', async () => {
    const taken = await takeOver(jobs);
    const { connection } = taken.store;
    connection
      .prepare("update jobs set state = 'finished', ready = null, finished_at = ? where name = 'One'")
      .run([NOW]);
    connection.exec("delete from jobs where name = 'Two'");
    const second = await taken.again(jobs);
    expect(second.report).toMatchObject({ imported: {}, known: 2 });
    expect(second.rows.map(({ name }) => name)).toEqual(['One']);
  });

  test('knows its jobs when the activity is pruned or their keys were changed', async () => {
    const taken = await takeOver(jobs);
    const { connection } = taken.store;
    connection.prepare("update jobs set unique_key = 'mine' where name = 'One'").run([]);
    connection.prepare('delete from events where job_id = ?').run([taken.rows[1]?.id]);
    expect((await taken.again(jobs)).report).toMatchObject({ imported: {}, known: 2 });
  });

  test('of another database has other jobs by the same numbers', async () => {
    const taken = await takeOver(jobs);
    const others = jobs.map((job) => ({ ...job, created: '2026-03-01 08:00:01' }));
    expect((await taken.again(others)).report).toMatchObject({ imported: { queued: 2 }, known: 0 });
  });

  test('knows a job that has got another name, state or time meanwhile', async () => {
    const taken = await takeOver(jobs);
    const changed = jobs.map((job) => ({ ...job, name: 'New', nextRun: '2027-01-01 00:00:00' }));
    expect((await taken.again(changed)).report).toMatchObject({ imported: {}, known: 2 });
  });
});

test('jobs come in the order in which they were added there', async () => {
  const created = (second: number) => `2026-03-01 08:00:0${second}`;
  const { rows } = await takeOver([
    { jobID: 1, name: 'third', created: created(3) },
    { jobID: 2, name: 'first', created: created(1) },
    { jobID: 3, name: 'second', created: created(2) },
  ]);
  expect(rows.map(({ name }) => name)).toEqual(['first', 'second', 'third']);
});

test('more jobs than fit into one statement are all there, with their families', async () => {
  const parents = Array.from({ length: 700 }, (_, index) => ({ jobID: index + 1, name: `p${index}`, state: 'PAUSED' }));
  const children = parents.map(({ jobID, name }) => ({
    jobID: jobID + 10_000,
    name: `${name}/child`,
    parentJobID: jobID,
  }));
  const { rows, report } = await takeOver([...children, ...parents]);
  expect(report.imported).toEqual({ paused: 700, queued: 700 });
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  for (const row of rows.filter(({ parent_id }) => parent_id !== null)) {
    expect(row.name).toBe(`${names.get(row.parent_id ?? 0)}/child`);
  }
});

test('what goes wrong late leaves nothing of it behind', async () => {
  const store = await openSqliteOf(makeTemporaryRoot());
  store.connection.exec(`create trigger refuses before insert on jobs when new.name = 'last'
    begin select raise(abort, 'no room'); end`);
  const many = Array.from({ length: 1_200 }, (_, index) => ({ jobID: index + 1 }));
  const jobs = [...many, { jobID: 9_999, name: 'last' }];
  await expect(takeOverInto(store, jobs, {})).rejects.toThrow('no room');
  expect(readAll(store, 'jobs')).toEqual([]);
  expect(readAll(store, 'activity')).toEqual([]);
});

test('an older table without priority, parents and retryAfter is understood', async () => {
  const folder = makeTemporaryRoot();
  const schema = `create table jobs (created text, jobID integer primary key, state text, name text,
    nextRun text, lastRun text, repeat text, data text)`;
  const path = makeBedrock({ folder, schema }, [{ jobID: 1 }]);
  const store = await openSqliteOf(makeTemporaryRoot());
  const report = await readExternalDatabase(path, async (database) => {
    const queue = readBedrock(database, { withEnded: false, missed: 'once' });
    return await importJobs(store, queue, { at: NOW, isDryRun: false, skipBad: false });
  });
  expect(report.imported).toEqual({ queued: 1 });
  expect(readAll(store, 'jobs')).toMatchObject([{ priority: 500, missed_policy: 'once' }]);
});
