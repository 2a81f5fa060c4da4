import { expect, test } from 'vitest';
import type { RunStart } from '../../../src/store/shared/run-rows.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { pruningOf } from '../../../src/store/statements/pruning.ts';
import type { JobState } from '../../../src/store/words.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { explainQueries, openSqliteOf } from '../../support/store.ts';
import { writeLog } from '../../support/written-log.ts';

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
): Promise<void> {
  const start: RunStart = {
    ...{ jobId, workerId: null, key: null, script: 'queue/a', contentHash: null, attempt: 1 },
    ...{ scheduledFor: null, startedAt, timeoutMs: null },
  };
  const kept = output === undefined ? {} : { output, output_bytes: output.length };
  const long = file === undefined ? {} : { output_file: file, output_file_bytes: fileBytes };
  const end = makeFinishedRun({ finished_at: startedAt + 1, ...kept, ...long });
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

test('the log’s size counts output files, and not what is free inside it', async () => {
  const store = await open();
  const pruning = pruningOf(store.statements);
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

test('no step of deleting reads a whole table', async () => {
  const root = makeTemporaryRoot();
  await writeLog(root);
  const plans = await explainQueries(root, async ({ statements }) => {
    const pruning = pruningOf(statements);
    await pruning.endedJobs(['finished', 'cancelled'], 2, 500);
    await pruning.endedJobs(['failed'], 2, 500);
    await pruning.events(2, 500);
    await pruning.workers(2, 500);
    await pruning.runs({ succeeded: 2, failed: 1 }, 500);
    await pruning.look({ succeeded: 2, failed: 1, seen: 0 });
  });
  expect(plans.length).toBeGreaterThanOrEqual(6);
  // Up to the first young one, which is looked for in the order of their numbers.
  const isBounded = /SCALAR SUBQUERY \d+; SCAN (runs|workers)|SCAN (json_each|CONSTANT)/g;
  const isFew = /SCAN (machines|pragma_\w+ VIRTUAL TABLE|runs USING (COVERING )?INDEX runs_with_file)/g;
  for (const plan of plans) expect(plan.replace(isBounded, '').replace(isFew, '')).not.toMatch(/SCAN/);
  expect(plans.join('\n')).toMatch(/jobs USING (COVERING )?INDEX jobs_ended/);
  expect(plans.join('\n')).toMatch(/SEARCH workers USING INTEGER PRIMARY KEY \(rowid<\?\)/);
  expect(plans.join('\n')).toMatch(/SEARCH runs USING INTEGER PRIMARY KEY \(rowid<\?\)/);
  expect(plans.join('\n')).toMatch(/events USING (COVERING )?INDEX events_by_time/);
});

test('the size of all output files is read from an index', async () => {
  const root = makeTemporaryRoot();
  await writeLog(root);
  const [plan] = await explainQueries(root, ({ statements }) => pruningOf(statements).usedBytes());
  expect(plan).toMatch(/SCAN runs USING (COVERING )?INDEX runs_with_file/);
});
