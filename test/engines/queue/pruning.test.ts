import { expect, onTestFinished, test } from 'vitest';
import type { RunStart } from '../../../src/store/shared/run-rows.ts';
import type { NewJobRow } from '../../../src/store/statements/jobs.ts';
import { jobListsOf } from '../../../src/store/statements/list-jobs.ts';
import { type PruneStep, pruningOf } from '../../../src/store/statements/pruning.ts';
import type { NewWorker } from '../../../src/store/statements/workers.ts';
import type { Store } from '../../../src/store/store.ts';
import type { JobState, Outcome } from '../../../src/store/words.ts';
import { machineName } from '../../../src/system/process/identity.ts';
import { engine } from '../../support/engines/engines.ts';
import { changeLog, makeFinishedRun } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';

interface Log {
  readonly root: string;
  readonly store: Store;
}

async function open(): Promise<Log> {
  const root = makeTemporaryRoot();
  return { root, store: await openIn(root) };
}

async function openIn(root: string): Promise<Store> {
  const store = await engine.openStore(makeStateOf(root));
  onTestFinished(() => store.close());
  return store;
}

const prune = (store: Store, step: (pruning: ReturnType<typeof pruningOf>) => Promise<PruneStep>): Promise<PruneStep> =>
  store.transaction(({ statements }) => step(pruningOf(statements)));

function makeJob(row: Partial<NewJobRow>): NewJobRow {
  return {
    ...{ name: 'a', state: 'queued', data: '{}', priority: 500, scheduled_for: null, run_at: 0, retry: null },
    ...{ repeat: null, missed_policy: 'all', unique_key: null, concurrency_key: null, parent_id: null },
    ...{ on_child_failure: null, lease_ms: null, created_at: 0, ...row },
  };
}

/** Its number. */
async function addJob(store: Store, row: Partial<NewJobRow>): Promise<number> {
  const [id] = await store.transaction(({ jobs }) => jobs.add([makeJob(row)], 0));
  return id as number;
}

async function addScriptJob(store: Store, at: number): Promise<number> {
  const [id] = await store.transaction(({ scriptJobs }) =>
    scriptJobs.enqueue([{ name: 'hourly/a', tier: 'hourly', scheduledFor: null, at }]),
  );
  return id as number;
}

interface RunFields {
  readonly workerId?: number;
  readonly outcome?: Outcome;
  readonly finishedAt?: number;
  readonly file?: string;
  readonly fileBytes?: number;
}

async function addRun(store: Store, jobId: number, startedAt: number, fields: RunFields = {}): Promise<void> {
  const { workerId = null, outcome = 'succeeded', finishedAt = startedAt + 1, file = null, fileBytes = 10 } = fields;
  const start: RunStart = {
    ...{ jobId, workerId, key: null, script: 'queue/a', contentHash: null, attempt: 1 },
    ...{ scheduledFor: null, startedAt, timeoutMs: null },
  };
  const output = { output_file: file, output_file_bytes: file === null ? null : fileBytes };
  const end = makeFinishedRun({ outcome, finished_at: finishedAt, ...output });
  await store.transaction(({ runs }) => runs.end([{ ...start, runId: null, end, leftJob: null }]));
}

/** Jobs that ended at 1, 2, 3 …, each with one run. */
async function addEndedJobs(store: Store, states: readonly JobState[], file?: string): Promise<void> {
  for (const [index, state] of states.entries()) {
    const id = await addJob(store, { state, finished_at: state === 'queued' ? null : index + 1 });
    await addRun(store, id, index, file === undefined ? {} : { file });
  }
}

async function readEnds(store: Store): Promise<(number | null)[]> {
  const rows = await (await store.queries()).selectFrom('jobs').select('finished_at').orderBy('id').execute();
  return rows.map(({ finished_at }) => finished_at);
}

test('a step deletes the longest ended first, and no more than its limit', async () => {
  const { store } = await open();
  await addEndedJobs(store, ['finished', 'cancelled', 'finished', 'finished', 'finished']);
  const step = () => prune(store, (pruning) => pruning.endedJobs(['finished', 'cancelled'], 5, 3));
  expect(await step()).toEqual({ deleted: 3, outputFiles: [] });
  expect(await readEnds(store)).toEqual([4, 5]);
  expect(await step()).toMatchObject({ deleted: 1 });
  expect(await step()).toMatchObject({ deleted: 0 });
  expect(await readEnds(store)).toEqual([5]);
  expect(await pruningOf(store.statements).rows()).toBe(1);
});

test('a look tells which steps would delete something', async () => {
  const { store } = await open();
  const look = async (at: number, failed = at): Promise<string[]> => {
    const { usedBytes, ...found } = await pruningOf(store.statements).look({ succeeded: at, failed, seen: at });
    expect(usedBytes).toBe(await pruningOf(store.statements).usedBytes());
    return Object.entries(found).flatMap(([kind, isThere]) => (isThere ? kind : []));
  };
  expect(await look(1000)).toEqual([]);
  await addEndedJobs(store, ['failed']);
  expect([await look(1000, 1), await look(1, 1000)]).toEqual([[], ['jobs']]);
  await addRun(store, await addScriptJob(store, 5), 6);
  expect([await look(7), await look(8)]).toEqual([['jobs'], ['jobs', 'runs']]);
  await store.transaction(({ events }) => events.record([{ at: 20, event: 'paused' }]));
  await store.transaction(({ workers }) =>
    workers.addEnded(makeWorker(30), { state: 'finished', at: 31, reason: null }),
  );
  expect([await look(21), await look(32)]).toEqual([
    ['jobs', 'runs', 'events'],
    ['jobs', 'runs', 'events', 'workers'],
  ]);
});

test('jobs in other states, open ones, and those of scripts stay', async () => {
  const { root, store } = await open();
  await addEndedJobs(store, ['failed', 'queued', 'finished']);
  const script = await addScriptJob(store, 5);
  changeLog(root, `update jobs set state = 'finished', finished_at = 7 where id = ?`, script);
  await prune(store, (pruning) => pruning.endedJobs(['finished', 'cancelled'], 1000, 10));
  expect(await readEnds(store)).toEqual([1, null, 7]);
  await prune(store, (pruning) => pruning.endedJobs(['failed'], 1000, 10));
  expect(await readEnds(store)).toEqual([null, 7]);
});

test('the oldest runs go whatever became of them, with jobs that have ended, and open jobs stay', async () => {
  const { store } = await open();
  await addEndedJobs(store, ['queued', 'failed', 'finished', 'cancelled', 'finished']);
  expect(await prune(store, (pruning) => pruning.oldest(3))).toMatchObject({ deleted: 3 });
  expect(await readEnds(store)).toEqual([null, 4, 5]);
  expect(await pruningOf(store.statements).rows()).toBe(2);
  expect(await prune(store, (pruning) => pruning.oldest(0))).toMatchObject({ deleted: 0 });
});

test('the output files of deleted runs are named', async () => {
  const { store } = await open();
  for (const file of ['1.log.gz', undefined, '3.log.gz']) await addEndedJobs(store, ['finished'], file);
  expect(await store.runs.outputFiles()).toEqual(['1.log.gz', '3.log.gz']);
  expect(await prune(store, (pruning) => pruning.oldest(3))).toEqual({
    deleted: 3,
    outputFiles: ['1.log.gz', '3.log.gz'],
  });
});

test('old events go in bounded steps', async () => {
  const { store } = await open();
  await store.transaction(({ events }) => events.record([1, 2, 3, 4].map((at) => ({ at, event: 'paused' }))));
  for (const deleted of [2, 1, 0]) {
    expect(await prune(store, (pruning) => pruning.events(4, 2))).toMatchObject({ deleted });
  }
  const left = await (await store.queries()).selectFrom('events').select('at').execute();
  expect(left).toEqual([{ at: 4 }]);
});

function makeWorker(startedAt: number, host = 'web-1'): NewWorker {
  return {
    ...{ kind: 'queue', tier: null, host, bootId: null, pid: 1, startTicks: null, trigger: 'cron' },
    ...{ scheduledFor: null, startedAt, runnerVersion: '1.0.0', nodeVersion: '24.0.0' },
  };
}

test('an old worker stays as long as one of its runs does', async () => {
  const { store } = await open();
  const addWorker = (startedAt: number): Promise<number> =>
    store.transaction(({ workers }) =>
      workers.addEnded(makeWorker(startedAt), { state: 'finished', at: startedAt + 1, reason: null }),
    );
  await addWorker(0);
  const withRun = await addWorker(1);
  await addRun(store, await addJob(store, {}), 1, { workerId: withRun });
  const goesOn = await store.transaction(({ workers }) => workers.start(makeWorker(2)));
  expect(await prune(store, (pruning) => pruning.workers(1_000_000, 10))).toMatchObject({ deleted: 1 });
  const left = await store.workers.byId([1, 2, 3, withRun, goesOn]);
  expect(left.map(({ id }) => id).sort((one, other) => one - other)).toEqual([withRun, goesOn]);
});

test('the size counts the output files that are kept here', async () => {
  const { store } = await open();
  const addFile = async (host: string, fileBytes: number): Promise<void> => {
    const workerId = await store.transaction(({ workers }) => workers.start(makeWorker(1, host)));
    await addRun(store, await addJob(store, {}), 1, { workerId, file: `${workerId}.log.gz`, fileBytes });
  };
  const empty = await pruningOf(store.statements).usedBytes();
  await addFile(machineName(), 5_000_000_000);
  await addFile('elsewhere', 70_000_000_000);
  const files = store.fleet === null ? 75_000_000_000 : 5_000_000_000;
  const ofTables = (await pruningOf(store.statements).usedBytes()) - files;
  // A server estimates them by figures that come a moment later.
  expect(Math.abs(ofTables - empty)).toBeLessThan(1_000_000);
});

/** A parent and its two ended children, of which it was told of the first; with the name of each. */
async function addFamily(store: Store, state: 'paused' | 'finished'): Promise<number[]> {
  const parent = await addJob(store, { name: 'parent', state, finished_at: state === 'finished' ? 9 : null });
  const child = { state: 'finished' as const, parent_id: parent, finished_at: 2 };
  const told = await addJob(store, { name: 'told', ...child });
  await store.transaction(({ jobs }) => jobs.change([{ id: told, set: { reported_to_parent: 1 } }], 0));
  return [parent, told, await addJob(store, { name: 'untold', ...child })];
}

async function readNames(store: Store): Promise<string[]> {
  const rows = await (await store.queries()).selectFrom('jobs').select('name').orderBy('id').execute();
  return rows.map(({ name }) => name);
}

test.each([
  ['paused', ['parent', 'untold']],
  ['finished', ['parent']],
] as const)('of a parent that is %s, children stay that it is still to be told of', async (state, left) => {
  const { store } = await open();
  await addFamily(store, state);
  await prune(store, (pruning) => pruning.endedJobs(['finished'], 5, 10));
  expect(await readNames(store)).toEqual(left);
});

test.each([false, true])('also of the oldest, with runs: %s', async (haveRuns) => {
  const { store } = await open();
  const family = await addFamily(store, 'paused');
  if (haveRuns) for (const [at, id] of family.entries()) await addRun(store, id, at + 1);
  await prune(store, (pruning) => pruning.oldest(10));
  expect(await readNames(store)).toEqual(['parent', 'untold']);
});

test('old runs of scripts and of repeating jobs go, each by its own age, though their jobs stay', async () => {
  const { store } = await open();
  const repeating = await addJob(store, { repeat: 'HOURLY' });
  const once = await addJob(store, {});
  const script = await addScriptJob(store, 5);
  for (const at of [10, 20, 30]) {
    for (const id of [repeating, once, script]) {
      for (const outcome of ['succeeded', 'failed', 'released'] as const) await addRun(store, id, at, { outcome });
    }
  }
  // Each has ended 1 ms later.
  const before = { succeeded: 31, failed: 21 };
  for (const deleted of [1, 9, 0]) {
    expect(await prune(store, (pruning) => pruning.runs(before, deleted === 1 ? 1 : 20))).toMatchObject({ deleted });
  }
  const queries = await store.queries();
  const left = (id: number) =>
    queries.selectFrom('runs').select(['started_at', 'outcome']).where('job_id', '=', id).orderBy('id').execute();
  for (const id of [repeating, script]) {
    expect(await left(id)).toEqual([
      { started_at: 20, outcome: 'failed' },
      { started_at: 30, outcome: 'succeeded' },
      { started_at: 30, outcome: 'failed' },
      { started_at: 30, outcome: 'released' },
    ]);
  }
  expect(await left(once)).toHaveLength(9);
  expect(await readNames(store)).toHaveLength(3);
});

test('a run that began long ago and was found dead today stays', async () => {
  const { store } = await open();
  await addRun(store, await addScriptJob(store, 1), 1, { outcome: 'crashed', finishedAt: 2_000 });
  const pruneRuns = (at: number) => prune(store, (pruning) => pruning.runs({ succeeded: at, failed: at }, 10));
  expect(await pruneRuns(1_000)).toMatchObject({ deleted: 0 });
  expect(await pruneRuns(2_001)).toMatchObject({ deleted: 1 });
});

test('a run that goes on stays, however old it is', async () => {
  const { store } = await open();
  const start: RunStart = {
    ...{ jobId: await addScriptJob(store, 1), workerId: null, key: null, script: 'hourly/a', contentHash: null },
    ...{ attempt: 1, scheduledFor: null, startedAt: 1, timeoutMs: null },
  };
  const seen = { pid: null, startTicks: null, maxRssBytes: null };
  await store.transaction(({ runs }) => runs.start([{ ...start, ...seen }]));
  const all = { succeeded: 1_000, failed: 1_000 };
  expect(await prune(store, (pruning) => pruning.runs(all, 10))).toMatchObject({ deleted: 0 });
  expect(await prune(store, (pruning) => pruning.oldest(10))).toMatchObject({ deleted: 0 });
});

test('what is pruned stays counted, once, whoever prunes at the same time', async () => {
  const { root, store } = await open();
  await addEndedJobs(store, Array(40).fill('finished'));
  const other = await openIn(root);
  const step = (some: Store) => prune(some, (pruning) => pruning.endedJobs(['finished'], 1_000, 25));
  let deleted = 0;
  for (let round = 0; round < 3; round += 1) {
    for (const done of await (store.fleet === null ? inTurn : atOnce)([() => step(store), () => step(other)])) {
      deleted += done.deleted;
    }
  }
  expect(deleted).toBe(40);
  expect(await readNames(store)).toEqual([]);
  const totals = (await jobListsOf(store.statements).totals(['*'])).map(({ what, times }) => `${what}: ${times}`);
  expect(totals.sort()).toEqual(['added: 40', 'succeeded: 40']);
});

const atOnce = (steps: readonly (() => Promise<PruneStep>)[]): Promise<PruneStep[]> =>
  Promise.all(steps.map((step) => step()));

/** Two connections of one process to a file would wait for each other. */
async function inTurn(steps: readonly (() => Promise<PruneStep>)[]): Promise<PruneStep[]> {
  const done: PruneStep[] = [];
  for (const step of steps) done.push(await step());
  return done;
}
