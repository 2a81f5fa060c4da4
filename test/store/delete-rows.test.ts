import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { selectFigures } from '../../src/report/model/runs.ts';
import { recordActivity } from '../../src/store/events.ts';
import {
  countStoredJobs,
  deleteEndedJobs,
  deleteOldActivity,
  deleteOldestJobs,
  deleteOldWorkers,
  deleteRunsOfRepeating,
  measureLog,
} from '../../src/store/prune.ts';
import type { Database } from '../../src/store/store.ts';

import { explainQueries } from '../support/query-plan.ts';
import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { writeLog } from '../support/written-log.ts';

/** Jobs that ended at 1, 2, 3 …, each with one run. */
async function addEndedJobs(
  db: Database,
  states: readonly ('finished' | 'failed' | 'cancelled' | 'queued')[],
  output: { readonly output_file: string; readonly output_file_bytes: number } | null = null,
): Promise<void> {
  await sql`insert or ignore into workers (id, kind, tier, state, host, pid, started_at, finished_at,
    runner_version, node_version) values (1, 'tier', 'hourly', 'finished', 'h', 1, 0, 1, '0', '0')`.execute(
    db,
  );
  for (const [index, state] of states.entries()) {
    const { id } = await db
      .insertInto('jobs')
      .values({
        name: 'hourly/a',
        tier: 'hourly',
        state,
        run_at: 0,
        created_at: 0,
        finished_at: state === 'queued' ? null : index + 1,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db
      .insertInto('runs')
      .values({
        job_id: id,
        worker_id: 1,
        script: 'hourly/a',
        attempt: 1,
        outcome: 'succeeded',
        started_at: index,
        ...output,
      })
      .execute();
  }
}

async function readEnds(db: Database): Promise<(number | null)[]> {
  const rows = await db.selectFrom('jobs').select('finished_at').orderBy('id').execute();
  return rows.map((row) => row.finished_at);
}

test('a step deletes the longest ended first, and no more than its limit', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await addEndedJobs(db, ['finished', 'cancelled', 'finished', 'finished', 'finished']);
  expect(await deleteEndedJobs(db, ['finished', 'cancelled'], 5, 3)).toEqual({
    count: 3,
    outputFiles: [],
  });
  expect(await readEnds(db)).toEqual([4, 5]);
  expect(await deleteEndedJobs(db, ['finished', 'cancelled'], 5, 3)).toMatchObject({ count: 1 });
  expect(await deleteEndedJobs(db, ['finished', 'cancelled'], 5, 3)).toMatchObject({ count: 0 });
  expect(await readEnds(db)).toEqual([5]);
  expect(await db.selectFrom('runs').select('id').execute()).toHaveLength(1);
});

test('jobs in other states, and open ones, stay', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await addEndedJobs(db, ['failed', 'queued', 'finished']);
  await deleteEndedJobs(db, ['finished', 'cancelled'], 1000, 10);
  expect(await readEnds(db)).toEqual([1, null]);
  await deleteEndedJobs(db, ['failed'], 1000, 10);
  expect(await readEnds(db)).toEqual([null]);
});

test('the oldest go whatever their state, except open ones', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await addEndedJobs(db, ['queued', 'failed', 'finished', 'cancelled', 'finished']);
  expect(await deleteOldestJobs(db, 3)).toMatchObject({ count: 3 });
  expect(await readEnds(db)).toEqual([null, 5]);
  expect(await deleteOldestJobs(db, 0)).toMatchObject({ count: 0 });
});

test('the output files of deleted runs are named', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await addEndedJobs(db, ['finished'], { output_file: '1.log.gz', output_file_bytes: 10 });
  await addEndedJobs(db, ['finished']);
  await addEndedJobs(db, ['finished'], { output_file: '3.log.gz', output_file_bytes: 10 });
  const deleted = await deleteOldestJobs(db, 3);
  expect(deleted).toEqual({ count: 3, outputFiles: ['1.log.gz', '3.log.gz'] });
});

test('the log’s size counts output files, and not what is free inside it', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  const empty = await measureLog(db);
  expect(empty).toBeGreaterThan(4096);
  await addEndedJobs(db, ['finished'], { output_file: '1.log.gz', output_file_bytes: 5_000_000 });
  expect(await measureLog(db)).toBe(empty + 5_000_000);
  await db
    .updateTable('runs')
    .set({ output: 'x'.repeat(1_000_000) })
    .execute();
  expect(await measureLog(db)).toBeGreaterThan(empty + 5_900_000);
  expect(await countStoredJobs(db)).toBe(1);
  await deleteOldestJobs(db, 1);
  expect(await measureLog(db)).toBe(empty);
  expect(await countStoredJobs(db)).toBe(0);
});

test('free pages go back to the disk, as many as asked for', async () => {
  const { db, giveBackPages } = await openStoreOf(makeTemporaryRoot());
  const readFreePages = async (): Promise<number> => {
    const { rows } = await sql<{ pages: number }>`
      select freelist_count as pages from pragma_freelist_count`.execute(db);
    return rows[0]?.pages as number;
  };
  await addEndedJobs(db, ['finished']);
  await db
    .updateTable('runs')
    .set({ output: 'x'.repeat(1_000_000) })
    .execute();
  await deleteOldestJobs(db, 1);
  const free = await readFreePages();
  expect(free).toBeGreaterThan(200);
  giveBackPages(100);
  expect(await readFreePages()).toBe(free - 100);
  giveBackPages(1_000);
  expect(await readFreePages()).toBe(0);
});

test('old activity goes in bounded steps', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  for (const at of [1, 2, 3, 4]) await recordActivity(db, { at, event: 'worker-started' });
  expect(await deleteOldActivity(db, 4, 2)).toBe(2);
  expect(await deleteOldActivity(db, 4, 2)).toBe(1);
  expect(await deleteOldActivity(db, 4, 2)).toBe(0);
  expect(await db.selectFrom('activity').select('at').execute()).toEqual([{ at: 4 }]);
});

test('an old worker stays as long as one of its runs does', async () => {
  const { db, addPass, addRun } = await writeLog(makeTemporaryRoot());
  await addPass('hourly', 0);
  const withRun = await addPass('hourly', 1);
  await addRun('hourly/a', 1, { worker_id: withRun });
  const goesOn = await addPass('hourly', 2, { state: 'running' });
  expect(await deleteOldWorkers(db, 1_000_000, 10)).toBe(1);
  const left = await db.selectFrom('workers').select('id').orderBy('id').execute();
  expect(left.map(({ id }) => id)).toEqual([withRun, goesOn]);
});

test('no step of deleting reads a whole table', async () => {
  const { state } = await writeLog(makeTemporaryRoot());
  const plans = await explainQueries(state.database, async (db) => {
    await addEndedJobs(db, ['finished', 'finished', 'finished']);
    await deleteEndedJobs(db, ['finished', 'cancelled'], 2, 500);
    await deleteEndedJobs(db, ['failed'], 2, 500);
    await deleteOldActivity(db, 2, 500);
    await deleteOldWorkers(db, 2, 500);
  });
  expect(plans.length).toBeGreaterThanOrEqual(6);
  for (const plan of plans) expect(plan).not.toMatch(/SCAN/);
  expect(plans.join('\n')).toMatch(/jobs USING (COVERING )?INDEX jobs_ended/);
  expect(plans.join('\n')).toMatch(/runs USING (COVERING )?INDEX runs_by_job/);
  expect(plans.join('\n')).toMatch(/activity USING (COVERING )?INDEX activity_by_time/);
  expect(plans.join('\n')).toMatch(/workers USING (COVERING )?INDEX workers_by_end/);
});

test('the size of all output files is read from an index', async () => {
  const { state } = await writeLog(makeTemporaryRoot());
  const [plan] = await explainQueries(state.database, measureLog);
  expect(plan).toMatch(/SCAN runs USING (COVERING )?INDEX runs_with_file/);
});

test('the report’s summary is read from its index, never from the rows with their output', async () => {
  const { state } = await writeLog(makeTemporaryRoot());
  const plans = await explainQueries(state.database, (db) =>
    selectFigures(db, ['hourly/a'], { sinceMs: 0, untilMs: 1 }),
  );
  expect(plans).toEqual([
    'SEARCH runs USING COVERING INDEX runs_summary (script=? AND started_at>? AND started_at<?)',
  ]);
});

/** A parent that began at 1 and its two ended children, of which it was told of the first. */
async function addFamily(db: Database, state: 'paused' | 'finished'): Promise<void> {
  const ended = { state: 'finished', finished_at: 2, run_at: 0, created_at: 0 } as const;
  const parent = { ...ended, state, finished_at: state === 'finished' ? 9 : null };
  await db
    .insertInto('jobs')
    .values([
      { id: 1, name: 'parent', parent_id: null, is_told: 0, ...parent },
      { id: 2, name: 'told', parent_id: 1, is_told: 1, ...ended },
      { id: 3, name: 'untold', parent_id: 1, is_told: 0, ...ended },
    ])
    .execute();
}

test.each([
  ['paused', ['parent', 'untold']],
  ['finished', ['parent']],
] as const)(
  'of a parent that is %s, children stay that it is still to be told of',
  async (state, left) => {
    const { db } = await openStoreOf(makeTemporaryRoot());
    await addFamily(db, state);
    await deleteEndedJobs(db, ['finished'], 5, 10);
    const names = await db.selectFrom('jobs').select('name').orderBy('id').execute();
    expect(names.map(({ name }) => name)).toEqual(left);
  },
);

test('also of the oldest', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  await addFamily(db, 'paused');
  await deleteOldestJobs(db, 10);
  const names = await db.selectFrom('jobs').select('name').orderBy('id').execute();
  expect(names.map(({ name }) => name)).toEqual(['parent', 'untold']);
});

test('old runs of a repeating job go, each by its own age, though their job stays', async () => {
  const { db } = await openStoreOf(makeTemporaryRoot());
  const job = { name: 'a', run_at: 0, created_at: 0 };
  const [repeating, once] = await db
    .insertInto('jobs')
    .values([
      { ...job, repeat: 'HOURLY' },
      { ...job, repeat: null },
    ])
    .returning('id')
    .execute();
  const run = { worker_id: null, script: 'queue/a', tier: 'queue', attempt: 1 } as const;
  const runsOf = (jobId: number) =>
    [10, 20, 30].flatMap((started_at) => [
      { ...run, job_id: jobId, started_at, outcome: 'succeeded' as const },
      { ...run, job_id: jobId, started_at, outcome: 'failed' as const },
      { ...run, job_id: jobId, started_at, outcome: 'released' as const },
    ]);
  const jobs = [repeating?.id ?? 0, once?.id ?? 0];
  await db.insertInto('runs').values(jobs.flatMap(runsOf)).execute();
  const ages = { succeededBefore: 30, failedBefore: 20 };
  expect((await deleteRunsOfRepeating(db, ages, 1)).count).toBe(1);
  expect((await deleteRunsOfRepeating(db, ages, 10)).count).toBe(4);
  expect((await deleteRunsOfRepeating(db, ages, 10)).count).toBe(0);
  const left = await db.selectFrom('runs').select(['job_id', 'started_at', 'outcome']).execute();
  expect(left.filter(({ job_id }) => job_id === jobs[0])).toMatchObject([
    { started_at: 20, outcome: 'failed' },
    { started_at: 30, outcome: 'succeeded' },
    { started_at: 30, outcome: 'failed' },
    { started_at: 30, outcome: 'released' },
  ]);
  expect(left.filter(({ job_id }) => job_id === jobs[1])).toHaveLength(9);
});
