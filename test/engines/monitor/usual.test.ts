import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { faultNames, measureDetection, rowOf, shapes } from '../../../bench/usual.ts';
import { findSlowRuns } from '../../../src/checks/scripts.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import type { RunEnding } from '../../../src/store/shared/run-rows.ts';
import { findUsual } from '../../../src/store/statements/monitor/compare-runs.ts';
import { usualOf } from '../../../src/store/statements/monitor/usual.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { repository } from '../../support/site.ts';
import { openStoreOf } from '../../support/store.ts';
import { type WrittenLog, type WrittenRun, writeLog } from '../../support/written-log.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START = Date.UTC(2026, 9, 5);
const MB = 1024 * 1024;

/** A log in which a script has run so often, each hour, in about 10 s. */
async function makeHistory(runs: number, root = makeTemporaryRoot()): Promise<WrittenLog> {
  const log = await writeLog(root);
  const pass = await log.addPass('hourly', START);
  for (let run = 0; run < runs; run += 1) {
    const fields = {
      worker_id: pass,
      duration_us: 1000 * (10_000 + (run % 7) * 200),
      max_rss_bytes: 80 * MB,
      output_bytes: 1000,
    };
    await log.addRun('hourly/a', START + run * HOUR_MS, fields);
  }
  return log;
}

/** A run that has succeeded and has no row yet, of the log's one job. */
async function endOf({ db }: WrittenLog, script: string, at: number, end: Partial<FinishedRun>): Promise<RunEnding> {
  const { id: jobId } = await db.selectFrom('jobs').select('id').executeTakeFirstOrThrow();
  return {
    ...{ jobId, workerId: null, key: null, script, contentHash: null, attempt: 1, scheduledFor: null },
    ...{
      startedAt: START + at,
      timeoutMs: null,
      runId: null,
      leftJob: null,
      end: makeFinishedRun({ output: null, output_bytes: 1000, ...end }),
    },
  };
}

const deviationsOf = (log: WrittenLog) => log.db.selectFrom('deviations').selectAll().execute();

// Of the measurement alone, whatever keeps the log.
test.skipIf(engine.name !== 'sqlite')('the table in bench/README.md is what the measurement gives', async () => {
  const page = readFileSync(join(repository, 'bench/README.md'), 'utf8');
  const rows = [...page.matchAll(/^\| ([\w ]+) \| ([\d.]+) in 1,000 \| (.+) \|$/gm)];
  expect(rows.map(([, name]) => name)).toEqual(Object.keys(shapes));
  for (const [, name = '', alarms, figures = ''] of rows) {
    const shape = shapes[name] as (typeof shapes)[string];
    const sample = { seed: 7, histories: 2, runs: 300, trials: 40 };
    const found = await measureDetection(shape, sample);
    const expected = figures.split(' | ').map(Number.parseFloat);
    const measured = rowOf(name, found).slice(2).map(Number.parseFloat);
    for (const [index, fault] of faultNames.entries()) {
      const difference = Math.abs((measured[index] as number) - (expected[index] as number));
      expect([name, fault, difference < 15], `${measured[index]} and ${expected[index]}`).toEqual([name, fault, true]);
    }
    // Of few runs, one more or less is chance.
    expect(found.falseAlarms).toBeLessThanOrEqual((Number(alarms) / 1000) * found.normalRuns + 4);
  }
});

test('goals are reached where figures vary by no more than 15%, also of a script with two kinds of run or a week', () => {
  const page = readFileSync(join(repository, 'bench/README.md'), 'utf8');
  for (const name of ['stable', 'noisy', 'trending', 'bimodal', 'weekly pattern', 'growing with data']) {
    const [, alarms, figures = ''] =
      new RegExp(`^\\| ${name} \\| ([\\d.]+) in 1,000 \\| (.+) \\|$`, 'm').exec(page) ?? [];
    expect(Number(alarms)).toBeLessThanOrEqual(1);
    for (const figure of figures.split(' | ')) expect(Number.parseFloat(figure)).toBeGreaterThanOrEqual(95);
  }
});

test('a run that is slower, faster, larger or prints less than usual is noted once, with its figures', async () => {
  const log = await makeHistory(30);
  expect(await deviationsOf(log)).toEqual([]);
  const at = START + 30 * HOUR_MS;
  const usual = { duration_us: 10_600_000, max_rss_bytes: 80 * MB, output_bytes: 1000 };
  const slow = await log.addRun('hourly/a', at, { ...usual, duration_us: 33_000_000 });
  const fast = await log.addRun('hourly/a', at + 1, { ...usual, duration_us: 900_000 });
  const large = await log.addRun('hourly/a', at + 2, { ...usual, max_rss_bytes: 300 * MB });
  const silent = await log.addRun('hourly/a', at + 3, { ...usual, output_bytes: 0 });
  // What has failed is compared with nothing, nor with it anything.
  await log.addRun('hourly/a', at + 4, { ...usual, duration_us: 1_000, outcome: 'failed' });
  const none = { name: '', since: null };
  expect(await deviationsOf(log)).toEqual([
    { run_id: slow, measure: 'duration', value: 33_000, usual: 10_600, runs: 30, ...none },
    { run_id: fast, measure: 'duration', value: 900, usual: 10_600, runs: 30, ...none },
    { run_id: large, measure: 'memory', value: 300 * MB, usual: 80 * MB, runs: 30, ...none },
    { run_id: silent, measure: 'output', value: 0, usual: 1000, runs: 30, ...none },
  ]);
});

test('a script is slower since its first slow run, until a success comes nearer to the usual', async () => {
  const log = await makeHistory(30);
  const { rises } = usualOf(log.store.statements);
  let at = START + 30 * HOUR_MS;
  const add = (fields: WrittenRun) => {
    at += HOUR_MS;
    return log.addRun('hourly/a', at, { max_rss_bytes: 80 * MB, ...fields });
  };
  const [old, next] = ['aa'.repeat(32), 'bb'.repeat(32)];
  await add({ duration_us: 10_600_000, content_hash: old });
  expect(await rises(at)).toEqual([]);
  // Of many slow runs only the first ones are unlike those before.
  for (let run = 0; run < 40; run += 1) await add({ duration_us: 33_000_000, content_hash: old });
  await add({ duration_us: 1000, outcome: 'failed', content_hash: old });
  await add({ duration_us: 31_000_000, max_rss_bytes: 900 * MB, content_hash: old });
  const slower = { script: 'hourly/a', measure: 'duration', value: 31_000, usual: 10_600, since: START + 32 * HOUR_MS };
  const unchanged = { isFileChanged: false, fileChanged: null };
  const heavier = { script: 'hourly/a', measure: 'memory', value: 900 * MB, usual: 80 * MB, since: at };
  expect(await rises(at)).toEqual([
    { ...heavier, ...unchanged },
    { ...slower, ...unchanged },
  ]);
  expect(await rises(at, 'hourly/b')).toEqual([]);
  expect(await rises(at - 1, 'hourly/a')).toEqual([{ ...slower, value: 33_000, ...unchanged }]);
  // What has been so for a month is usual by then, and much more so at the end of all time.
  expect(await rises(Number.MAX_SAFE_INTEGER)).toEqual([]);
  expect(await rises(START + 35 * HOUR_MS + 30 * DAY_MS, 'hourly/a')).toEqual([{ ...heavier, ...unchanged }]);
  await add({ duration_us: 12_000_000, content_hash: old });
  expect(await rises(at)).toEqual([]);

  // Its file may have changed with a failure already, and nobody may know.
  for (let run = 0; run < 60; run += 1) await add({ duration_us: 10_600_000, content_hash: old });
  await add({ outcome: 'failed', content_hash: next });
  const fileChanged = at;
  await add({ duration_us: 90_000_000, content_hash: next });
  expect(await rises(at)).toEqual([{ ...slower, value: 90_000, since: at, isFileChanged: true, fileChanged }]);
  await add({ duration_us: 10_600_000, content_hash: null });
  await add({ duration_us: 91_000_000, content_hash: next });
  expect(await rises(at)).toMatchObject([{ value: 91_000, since: at, isFileChanged: null, fileChanged: null }]);
});

test('the counts of a script are compared, too', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('hourly', START);
  for (let run = 0; run <= 10; run += 1) {
    const counts = { orders: run === 10 ? 3 : 100 + run };
    await log.addRun('hourly/a', START + run * HOUR_MS, { worker_id: pass, counts });
  }
  expect(await deviationsOf(log)).toMatchObject([
    { measure: 'count', name: 'orders', value: 3, usual: 104.5, runs: 10 },
  ]);
});

test('four runs tell nothing, and a few milliseconds are noise', async () => {
  const log = await makeHistory(4);
  await log.addRun('hourly/a', START + 4 * HOUR_MS, { duration_us: 100_000_000 });
  expect(await deviationsOf(log)).toEqual([]);
  expect(findUsual('duration', 45, [3, 3, 4, 3, 3, 4])).toBeNull();
  expect(findUsual('duration', 450, [3, 3, 4, 3, 3, 4])).toBe(3);
});

test('a run between two kinds of runs is unusual, and one like either kind is not', () => {
  const kinds = [10, 80, 11, 9, 10, 85, 10, 12, 78, 10, 11, 80].map((seconds) => seconds * 1000);
  expect(findUsual('duration', 28_000, kinds)).toBe(10_000);
  expect(findUsual('duration', 82_000, kinds)).toBeNull();
  expect(findUsual('duration', 250_000, kinds)).toBe(80_000);
  // Few and none are of one kind, however large the factor between them.
  expect(findUsual('count', 8, [0, 1, 2, 0, 3, 1, 4, 2, 1, 0, 3, 2])).toBeNull();
  // Less memory is never noted, whatever other runs take.
  expect(
    findUsual(
      'memory',
      300 * MB,
      [80, 80, 80, 900, 900, 900].map((each) => each * MB),
    ),
  ).toBeNull();
});

test('one odd run among many makes no others usual', () => {
  const usual = Array.from({ length: 29 }, (_, run) => 10_000 + (run % 7) * 200);
  expect(findUsual('duration', 32_000, [...usual, 30_000])).toBe(10_600);
  expect(findUsual('duration', 32_000, [...usual.slice(1), 30_000, 31_000])).toBeNull();
});

test('a run that would be usual on another day of the week is noted', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('hourly', START);
  // At night ten times as much to do, but on Sundays.
  const usual = (hour: number) => (hour % 24 < 6 && Math.floor(hour / 24) % 7 !== 6 ? 10_000 : 1000);
  const hours = 16 * 24;
  for (let hour = 0; hour < hours; hour += 3) {
    const of = { worker_id: pass, duration_us: 1000 * (usual(hour) + (hour % 7) * 20) };
    await log.addRun('hourly/a', START + hour * HOUR_MS, of);
  }
  const secondWeek = START + 7 * DAY_MS;
  const found = (
    await log.db.selectFrom('deviations').innerJoin('runs', 'runs.id', 'run_id').selectAll().execute()
  ).filter(({ started_at }) => started_at >= secondWeek);
  expect(found).toEqual([]);
  const id = await log.addRun('hourly/a', START + hours * HOUR_MS, { worker_id: pass, duration_us: 1_000_000 });
  expect((await deviationsOf(log)).filter(({ run_id }) => run_id === id)).toMatchObject([
    { measure: 'duration', value: 1000 },
  ]);
});

test('a deviation is recorded with its run, or not at all, and is deleted with it', async () => {
  const log = await makeHistory(30);
  const slow = await endOf(log, 'hourly/a', 30 * HOUR_MS, { duration_us: 60_000_000 });
  const dying = log.store.transaction(async ({ runs }) => {
    await runs.end([slow]);
    throw new Error('killed');
  });
  await expect(dying).rejects.toThrow('killed');
  expect(await deviationsOf(log)).toEqual([]);
  const [id] = await log.store.transaction(({ runs }) => runs.end([slow]));
  expect(await deviationsOf(log)).toMatchObject([{ run_id: id, measure: 'duration' }]);
  log.change('delete from jobs');
  expect(await deviationsOf(log)).toEqual([]);
});

test('runs of two machines that end at the same moment are both compared, whichever is recorded first', async () => {
  const root = makeTemporaryRoot();
  const log = await makeHistory(30, root);
  const stores = [log.store, await openStoreOf(root)];
  const both = [
    await endOf(log, 'hourly/a', 30 * HOUR_MS, { duration_us: 60_000_000 }),
    await endOf(log, 'hourly/a', 30 * HOUR_MS + 1, { duration_us: 120_000_000 }),
  ];
  await Promise.all(both.map((run, index) => stores[index]?.transaction(({ runs }) => runs.end([run]))));
  expect((await deviationsOf(log)).map(({ value }) => value).toSorted()).toEqual([120_000, 60_000]);
});

test('memory that creeps for weeks is noted once a day, though no run is unlike the one before', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('6hours', START);
  for (let run = 0; run < 30 * 4; run += 1) {
    const bytes = Math.round(80 * MB * 1.02 ** (run / 4));
    await log.addRun('6hours/a', START + run * 6 * HOUR_MS, { worker_id: pass, max_rss_bytes: bytes });
  }
  const found = await deviationsOf(log);
  expect(new Set(found.map(({ measure }) => measure))).toEqual(new Set(['creep']));
  const days = (await log.db.selectFrom('runs').select(['id', 'started_at']).execute())
    .filter(({ id }) => found.some(({ run_id }) => run_id === id))
    .map(({ started_at }) => (started_at - START) / DAY_MS);
  expect(days).toEqual([23, 24, 25, 26, 27, 28, 29]);
  for (const { value, usual, since } of found) {
    expect(value / usual).toBeGreaterThan(1.4);
    expect(since).toBeGreaterThanOrEqual(START);
  }
});

test('a run that goes on far over its usual time is found', async () => {
  const log = await makeHistory(30);
  const startedAt = START + 30 * HOUR_MS;
  const find = (after: number) => findSlowRuns(log.store, [{ script: 'hourly/a', startedAt }], startedAt + after);
  expect(await find(40_000)).toEqual([{ script: 'hourly/a', runningMs: 40_000, usualMs: 10_600 }]);
  expect(await find(15_000)).toEqual([]);
  // Far below it, too, it has only just begun.
  expect(await find(100)).toEqual([]);
});

test('a run that takes as long as some do is not found on its way there', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const pass = await log.addPass('hourly', START);
  for (let run = 0; run < 20; run += 1) {
    const of = { worker_id: pass, duration_us: 1000 * (run % 3 === 0 ? 80_000 : 10_000) };
    await log.addRun('hourly/a', START + run * HOUR_MS, of);
  }
  const startedAt = START + 20 * HOUR_MS;
  const find = (after: number) => findSlowRuns(log.store, [{ script: 'hourly/a', startedAt }], startedAt + after);
  expect(await find(30_000)).toEqual([]);
  expect(await find(250_000)).toMatchObject([{ usualMs: 80_000 }]);
});

test('a few runs of a handler with many short jobs are compared, and each run of all others', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const usual = { duration_us: 2_000, max_rss_bytes: 80 * MB };
  for (let run = 1; run <= 30; run += 1) {
    for (const script of ['queue/mail', 'hourly/a']) await log.addRun(script, START - run * HOUR_MS, usual);
  }
  const large = { ...usual, max_rss_bytes: 300 * MB };
  // One in 10 s: at 0 s, at 10.2 s, and at 20.4 s.
  const short = Array.from({ length: 100 }, (_, index) =>
    endOf(log, 'queue/mail', index * 300, index === 34 || index === 35 ? large : usual),
  );
  const others = [
    endOf(log, 'queue/mail', 10_400, { ...large, duration_us: 81_000, max_rss_bytes: 600 * MB }),
    endOf(log, 'queue/mail', 10_600, { ...large, counts: { mails: 2 }, max_rss_bytes: 1200 * MB }),
    endOf(log, 'hourly/a', 0, large),
  ];
  const ends = await Promise.all([...short, ...others]);
  const ids = await log.store.transaction(({ runs }) => runs.end(ends));
  const found = new Set((await deviationsOf(log)).map(({ run_id }) => run_id));
  expect(found).toEqual(new Set([34, 100, 101, 102].map((index) => ids[index])));
});
