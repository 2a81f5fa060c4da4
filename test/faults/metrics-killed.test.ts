import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { closeHours } from '../../src/monitor/metrics/hours.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../src/store/sqlite/store.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { distinctPoints, kindOf, listFaultPoints, runWithFault } from '../support/faults/faults.ts';
import { sampleCases, someAtATime } from '../support/faults/rounds.ts';
import { queryLog } from '../support/log.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { writeLog } from '../support/written-log.ts';

const HOUR = 3_600_000;

/** Two hours to close, and a run and a job that were deleted before that. */
async function makeBacklog(begin: number): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/hourly/notes.txt': 'no script' });
  const log = await writeLog(root);
  await log.addRun('hourly/a', begin + 1, {});
  await log.addRun('hourly/a', begin + HOUR - 50, {});
  const gone = await log.addRun('queue/mail', begin + 2, {});
  const { job_id } = await log.db.selectFrom('runs').select('job_id').where('id', '=', gone).executeTakeFirstOrThrow();
  await log.store.transaction((session) => session.jobs.delete([job_id]));
  await log.store.close();
  return root;
}

const metricsOf = (root: string) =>
  ['metrics order by script_id, hour', 'worker_metrics order by kind, tier, hour', 'uncounted'].map((table) =>
    queryLog(root, `select * from ${table}`),
  );

/** Ends like the process would: the statement is never carried out, and nothing after it. */
function dieAt(store: SqliteStore, statement: number): () => number {
  const { connection } = store;
  const prepare = connection.prepare.bind(connection);
  let count = 0;
  const wrap = (work: (values: readonly unknown[]) => unknown) => (values: readonly unknown[]) => {
    count += 1;
    if (count === statement) throw new Error('died here');
    return work(values);
  };
  connection.prepare = (text) => {
    const prepared = prepare(text);
    const all = wrap((values) => prepared.all(values));
    const run = wrap((values) => prepared.run(values));
    return { ...prepared, reader: prepared.reader, all, run } as typeof prepared;
  };
  return () => count;
}

test('ended at each statement of closing hours, they are counted once all the same', async () => {
  const begin = Date.UTC(2026, 0, 5);
  const now = begin + 2 * HOUR;
  const closeAgain = async (root: string, statement: number) => {
    const store = await openSqliteStore(stateFolderOf(root));
    const count = dieAt(store, statement);
    const ended = await closeHours(store, () => now, 60_000).then(
      () => 'closed',
      ({ message }) => message as string,
    );
    await store.close();
    return { ended, statements: count() };
  };
  const undisturbed = await makeBacklog(begin);
  const { statements } = await closeAgain(undisturbed, 0);
  const expected = metricsOf(undisturbed);
  expect(expected[0]).toHaveLength(3);
  expect(statements).toBeGreaterThan(20);
  // Each goes on where the one before it has died, so that all of them are met in one log.
  const root = await makeBacklog(begin);
  for (let statement = 1; statement <= statements; statement += 1) {
    expect((await closeAgain(root, statement)).ended).toMatch(/died here|closed/);
  }
  expect((await closeAgain(root, 0)).ended).toBe('closed');
  expect(metricsOf(root)).toEqual(expected);
});

test('killed at each write of closing an hour, it is counted once all the same', async () => {
  const begin = Math.floor(Date.now() / HOUR) * HOUR - 2 * HOUR;
  const { points, expected } = await closeAtOnce(begin);
  const inside = points.indexOf('sql update uncounted set counts_start#1');
  const first = points.findLastIndex((point, index) => point.startsWith('sql begin') && index < inside);
  const closing = points.slice(first, points.indexOf('sql delete worker_metrics#1') + 1);
  const kills = ['before sql update uncounted set counts_end#1'];
  for (const point of distinctPoints(closing)) kills.push(`before ${point}`, `after ${point}`);
  expect(kills.filter((at) => at.includes('commit'))).toHaveLength(4);
  await someAtATime(sampleCases(kills), async (at) => {
    const root = await makeBacklog(begin);
    await runWithFault(root, ['hourly'], { at });
    // Each closes an hour at least, whatever it takes.
    for (const _ of ['the one', 'the other']) {
      await runWithFault(root, ['hourly']);
      if (isDeepStrictEqual(withoutWorkers(metricsOf(root)), withoutWorkers(expected))) break;
    }
    expect(withoutWorkers(metricsOf(root))).toEqual(withoutWorkers(expected));
  });
});

const withoutWorkers = (tables: readonly unknown[][]) => tables.filter((_, index) => index !== 1);

/** What a pass does that closes both hours: on a busy machine the time of one may be over after the first. */
async function closeAtOnce(begin: number): Promise<{ points: readonly string[]; expected: readonly unknown[][] }> {
  const root = await makeBacklog(begin);
  const points = await listFaultPoints(root, ['hourly']);
  const hours = points.filter((point) => kindOf(point) === 'sql delete uncounted').length;
  return hours === 2 ? { points, expected: metricsOf(root) } : await closeAtOnce(begin);
}
