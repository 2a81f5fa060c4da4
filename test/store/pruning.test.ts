import { expect, test } from 'vitest';
import type { RunStart } from '../../src/store/contract.ts';
import type { JobState, Outcome } from '../../src/store/schema.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { explainQueries } from '../support/query-plan.ts';
import { openSqliteOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { running, writeLog } from '../support/written-log.ts';

const open = (): Promise<SqliteStore> => openSqliteOf(makeTemporaryRoot());

const ask = <Row>({ connection }: SqliteStore, text: string, ...values: unknown[]): Row[] =>
  connection.prepare(text).all(values) as Row[];

interface Output {
  readonly output?: string;
  readonly file?: string;
  readonly fileBytes?: number;
}

async function addRun(
  { runs }: Pick<SqliteStore, 'runs'>,
  jobId: number,
  startedAt: number,
  { output, file, fileBytes = 10 }: Output = {},
  outcome: Outcome = 'succeeded',
): Promise<void> {
  const start: RunStart = {
    ...{ jobId, workerId: null, key: null, script: 'queue/a', contentHash: null, attempt: 1 },
    ...{ scheduledFor: null, startedAt, timeoutMs: null },
  };
  const kept = output === undefined ? {} : { output, output_bytes: output.length };
  const long = file === undefined ? {} : { output_file: file, output_file_bytes: fileBytes };
  const end = makeFinishedRun({ outcome, finished_at: startedAt + 1, ...kept, ...long });
  await runs.end([{ ...start, runId: null, end, leftJob: null }]);
}

/** Jobs that ended at 1, 2, 3 …, each with one run. */
async function addEndedJobs(store: SqliteStore, states: readonly JobState[], output: Output = {}): Promise<void> {
  for (const [index, state] of states.entries()) {
    const isOpen = state === 'queued';
    const [row] = ask<{ id: number }>(
      store,
      `insert into jobs (name, state, ready, finished_at) values ('a', ?, ?, ?) returning id`,
      ...[state, isOpen ? 0 : null, isOpen ? null : index + 1],
    );
    await addRun(store, row?.id ?? 0, index, output);
  }
}

const readEnds = (store: SqliteStore): (number | null)[] =>
  ask<{ at: number | null }>(store, 'select finished_at as at from jobs order by id').map(({ at }) => at);

test('a step deletes the longest ended first, and no more than its limit', async () => {
  const store = await open();
  await addEndedJobs(store, ['finished', 'cancelled', 'finished', 'finished', 'finished']);
  const step = () => store.pruning.endedJobs(['finished', 'cancelled'], 5, 3);
  expect(await step()).toEqual({ deleted: 3, outputFiles: [] });
  expect(readEnds(store)).toEqual([4, 5]);
  expect(await step()).toMatchObject({ deleted: 1 });
  expect(await step()).toMatchObject({ deleted: 0 });
  expect(readEnds(store)).toEqual([5]);
  expect(await store.pruning.rows()).toBe(1);
});

test('jobs in other states, open ones, and those of scripts stay', async () => {
  const store = await open();
  await addEndedJobs(store, ['failed', 'queued', 'finished']);
  ask(
    store,
    `insert into jobs (name, tier, state, ready, finished_at)
       values ('hourly/a', 'hourly', 'finished', null, 7) returning id`,
  );
  await store.pruning.endedJobs(['finished', 'cancelled'], 1000, 10);
  expect(readEnds(store)).toEqual([1, null, 7]);
  await store.pruning.endedJobs(['failed'], 1000, 10);
  expect(readEnds(store)).toEqual([null, 7]);
});

test('the oldest runs go whatever became of them, with jobs that have ended, and open jobs stay', async () => {
  const store = await open();
  await addEndedJobs(store, ['queued', 'failed', 'finished', 'cancelled', 'finished']);
  expect(await store.pruning.oldest(3)).toMatchObject({ deleted: 3 });
  expect(readEnds(store)).toEqual([null, 4, 5]);
  expect(await store.pruning.rows()).toBe(2);
  expect(await store.pruning.oldest(0)).toMatchObject({ deleted: 0 });
});

test('the output files of deleted runs are named', async () => {
  const store = await open();
  await addEndedJobs(store, ['finished'], { file: '1.log.gz' });
  await addEndedJobs(store, ['finished']);
  await addEndedJobs(store, ['finished'], { file: '3.log.gz' });
  expect(await store.pruning.oldest(3)).toEqual({ deleted: 3, outputFiles: ['1.log.gz', '3.log.gz'] });
});

test('the log’s size counts output files, and not what is free inside it', async () => {
  const store = await open();
  const { pruning } = store;
  // Names of scripts stay.
  await addEndedJobs(store, ['finished']);
  await pruning.oldest(1);
  const empty = await pruning.usedBytes();
  expect(empty).toBeGreaterThan(4096);
  await addEndedJobs(store, ['finished'], { file: '1.log.gz', fileBytes: 5_000_000 });
  expect(await pruning.usedBytes()).toBe(empty + 5_000_000);
  await addEndedJobs(store, ['finished'], { output: 'x'.repeat(1_000_000) });
  expect(await pruning.usedBytes()).toBeGreaterThan(empty + 5_900_000);
  expect(await pruning.rows()).toBe(2);
  await pruning.oldest(2);
  expect([await pruning.usedBytes(), await pruning.rows()]).toEqual([empty, 0]);
});

test('old events go in bounded steps', async () => {
  const store = await open();
  await store.events.record([1, 2, 3, 4].map((at) => ({ at, event: 'paused' })));
  for (const deleted of [2, 1, 0]) {
    expect(await store.pruning.events(4, 2)).toMatchObject({ deleted });
  }
  expect(ask(store, 'select at from events')).toEqual([{ at: 4 }]);
});

test('an old worker stays as long as one of its runs does', async () => {
  const { store, addPass, addRun: addPassRun } = await writeLog(makeTemporaryRoot());
  await addPass('hourly', 0);
  const withRun = await addPass('hourly', 1);
  await addPassRun('hourly/a', 1, { worker_id: withRun });
  const goesOn = await addPass('hourly', 2, { state: 'running' });
  expect(await store.pruning.workers(1_000_000, 10)).toMatchObject({ deleted: 1 });
  expect(ask(store, 'select id from workers order by id')).toEqual([{ id: withRun }, { id: goesOn }]);
});

test('no step of deleting reads a whole table', async () => {
  const root = makeTemporaryRoot();
  await writeLog(root);
  const plans = await explainQueries(root, async ({ pruning }) => {
    await pruning.endedJobs(['finished', 'cancelled'], 2, 500);
    await pruning.endedJobs(['failed'], 2, 500);
    await pruning.events(2, 500);
    await pruning.workers(2, 500);
    await pruning.runs({ succeeded: 2, failed: 1 }, 500);
  });
  expect(plans.length).toBeGreaterThanOrEqual(5);
  // Up to the first young one, which is looked for in the order of their numbers.
  const isBounded = /SCALAR SUBQUERY \d+; SCAN (runs|workers)|SCAN (json_each|CONSTANT)/g;
  for (const plan of plans) expect(plan.replace(isBounded, '')).not.toMatch(/SCAN/);
  expect(plans.join('\n')).toMatch(/jobs USING (COVERING )?INDEX jobs_ended/);
  expect(plans.join('\n')).toMatch(/SEARCH workers USING INTEGER PRIMARY KEY \(rowid<\?\)/);
  expect(plans.join('\n')).toMatch(/SEARCH runs USING INTEGER PRIMARY KEY \(rowid<\?\)/);
  expect(plans.join('\n')).toMatch(/events USING (COVERING )?INDEX events_by_time/);
});

test('the size of all output files is read from an index', async () => {
  const root = makeTemporaryRoot();
  await writeLog(root);
  const [plan] = await explainQueries(root, ({ pruning }) => pruning.usedBytes());
  expect(plan).toMatch(/SCAN runs USING (COVERING )?INDEX runs_with_file/);
});

/** A parent that began at 1 and its two ended children, of which it was told of the first. */
function addFamily(store: SqliteStore, state: 'paused' | 'finished'): void {
  const end = state === 'finished' ? 9 : null;
  store.connection.exec(`insert into jobs
    (id, name, parent_id, reported_to_parent, state, ready, finished_at) values
    (1, 'parent', null, 0, '${state}', null, ${end}),
    (2, 'told', 1, 1, 'finished', null, 2), (3, 'untold', 1, 0, 'finished', null, 2)`);
}

const readNames = (store: SqliteStore): string[] =>
  ask<{ name: string }>(store, 'select name from jobs order by id').map(({ name }) => name);

test.each([
  ['paused', ['parent', 'untold']],
  ['finished', ['parent']],
] as const)('of a parent that is %s, children stay that it is still to be told of', async (state, left) => {
  const store = await open();
  addFamily(store, state);
  await store.pruning.endedJobs(['finished'], 5, 10);
  expect(readNames(store)).toEqual(left);
});

test.each([false, true])('also of the oldest, with runs: %s', async (haveRuns) => {
  const store = await open();
  addFamily(store, 'paused');
  if (haveRuns) for (const id of [1, 2, 3]) await addRun(store, id, id);
  await store.pruning.oldest(10);
  expect(readNames(store)).toEqual(['parent', 'untold']);
});

test('old runs of scripts and of repeating jobs go, each by its own age, though their jobs stay', async () => {
  const store = await open();
  store.connection.exec(`insert into jobs (id, name, repeat, tier, ready) values
    (1, 'a', 'HOURLY', null, 0), (2, 'a', null, null, 0), (3, 'hourly/a', null, 'hourly', null)`);
  for (const at of [10, 20, 30]) {
    for (const id of [1, 2, 3]) {
      for (const outcome of ['succeeded', 'failed', 'released'] as const) {
        await addRun(store, id, at, {}, outcome);
      }
    }
  }
  // Each has ended 1 ms later.
  const before = { succeeded: 31, failed: 21 };
  for (const deleted of [1, 9, 0]) {
    expect(await store.pruning.runs(before, deleted === 1 ? 1 : 20)).toMatchObject({ deleted });
  }
  const left = (id: number) => ask(store, 'select started_at, outcome from runs where job_id = ? order by id', id);
  for (const id of [1, 3]) {
    expect(left(id)).toEqual([
      { started_at: 20, outcome: 'failed' },
      { started_at: 30, outcome: 'succeeded' },
      { started_at: 30, outcome: 'failed' },
      { started_at: 30, outcome: 'released' },
    ]);
  }
  expect(left(2)).toHaveLength(9);
  expect(readNames(store)).toHaveLength(3);
});

test('a run that began long ago and was found dead today stays', async () => {
  const { store, addRun: addPassRun } = await writeLog(makeTemporaryRoot());
  await addPassRun('hourly/a', 1, { outcome: 'crashed', finished_at: 2_000 });
  const prune = (before: number) => store.pruning.runs({ succeeded: before, failed: before }, 10);
  expect(await prune(1_000)).toMatchObject({ deleted: 0 });
  expect(await prune(2_001)).toMatchObject({ deleted: 1 });
});

test('a run that goes on stays, however old it is', async () => {
  const { store, addRun: addPassRun } = await writeLog(makeTemporaryRoot());
  await addPassRun('hourly/a', 1, { ...running });
  const { pruning } = store;
  expect(await pruning.runs({ succeeded: 1_000, failed: 1_000 }, 10)).toMatchObject({ deleted: 0 });
  expect(await pruning.oldest(10)).toMatchObject({ deleted: 0 });
});
