import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Histogram, RELATIVE_ERROR } from '../../../src/monitor/metrics/figures.ts';
import { closeHours, eachMeasured, eachUncounted, HourlyFigures } from '../../../src/monitor/metrics/hours.ts';
import { type Period, periodAround, periods } from '../../../src/monitor/metrics/periods.ts';
import { type MetricBucket, readMetrics } from '../../../src/monitor/metrics/read-metrics.ts';
import { HourOfWorkers } from '../../../src/monitor/metrics/workers.ts';
import { type MeasuredRow, metricsOf } from '../../../src/store/statements/monitor/metrics.ts';
import type { Outcome } from '../../../src/store/words.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { type WrittenLog, type WrittenRun, writeLog } from '../../support/written-log.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** A Monday. */
const MONDAY = Date.UTC(2026, 0, 5);

/** A run of a length, as the log holds it. */
function lasting(startedAt: number, ms: number, fields: WrittenRun = {}): WrittenRun {
  return { started_at: startedAt, finished_at: startedAt + ms, duration_us: ms * 1000, ...fields };
}

async function addRun(log: WrittenLog, script: string, at: number, ms: number, fields: WrittenRun = {}) {
  return await log.addRun(script, at, lasting(at, ms, fields));
}

const close = (log: WrittenLog, at: number) => closeHours(log.store, () => at, 60_000);

async function readBuckets(log: WrittenLog, subject: string, period: Period, nowMs: number) {
  const query = { period, sinceMs: MONDAY, untilMs: nowMs, nowMs, subjects: [subject] };
  return (await readMetrics(log.store, query)).series[0]?.buckets ?? [];
}

test('a known log gives the figures computed by hand, also of what happens exactly on the hour', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const suspect = { suspect: 1 } as const;
  // Begins with the first hour, ends with the second: each instant belongs to the hour that it begins.
  await addRun(log, 'hourly/a', MONDAY, HOUR, { scheduled_for: MONDAY, user_cpu_us: 900_000, system_cpu_us: 100_000 });
  await addRun(log, 'hourly/a', MONDAY + HOUR, 2_000, {
    scheduled_for: MONDAY + HOUR - 5_000,
    max_rss_bytes: 9e7,
    ...suspect,
  });
  // Over several hours.
  await addRun(log, 'hourly/b', MONDAY + 10 * MINUTE, 3 * HOUR, {
    user_cpu_us: null,
    system_cpu_us: null,
    warning: 'slow',
  });
  // A retry: its first try is an error, the second one fails the job.
  await addRun(log, 'hourly/a', MONDAY + 90 * MINUTE, 1_000, { outcome: 'failed', left_job: 'retrying' });
  // The words of a warning count nothing: the column does.
  const warning = 'exit code 0, but its output tells of a failure: sh: 1: no-such-dump: not found';
  const second = { outcome: 'timed-out', left_job: 'failed', attempt: 2, warning } as const;
  await addRun(log, 'hourly/a', MONDAY + 91 * MINUTE, 4_000, second);
  await addRun(log, 'daily/c', MONDAY + 92 * MINUTE, 10, { outcome: 'crashed', left_job: 'cancelled' });
  await close(log, MONDAY + 4 * HOUR);
  const [first, next, ...rest] = await readBuckets(log, 'hourly/a', '1h', MONDAY + 4 * HOUR);
  expect(first).toMatchObject({ fromMs: MONDAY, started: 1, ended: 0, finished: 0, cpuMs: null });
  expect(first?.lateMs).toEqual({ mean: 0, max: 0 });
  expect(next).toMatchObject({ started: 3, ended: 4, finished: 2, errors: 1, failed: 1, crashed: 0, warned: 1 });
  expect(next).toMatchObject({ cpuMs: 1_000 + 3 * 50, cpuRuns: 4, maxRssBytes: 9e7 });
  expect(next?.lateMs).toEqual({ mean: 5_000, max: 5_000 });
  const spread = { count: 4, sum: HOUR + 7_000, mean: (HOUR + 7_000) / 4, min: 1_000, max: HOUR };
  expect(next?.runMs).toMatchObject(spread);
  expect(next?.runMs.p50).toBeCloseTo(2_000, -2);
  expect(rest).toEqual([]);
  const long = await readBuckets(log, 'hourly/b', '1h', MONDAY + 4 * HOUR);
  expect(long.map(({ fromMs, started, ended }) => [fromMs, started, ended])).toEqual([
    [MONDAY, 1, 0],
    [MONDAY + 3 * HOUR, 0, 1],
  ]);
  expect(long[1]).toMatchObject({ cpuMs: null, cpuRuns: 0, runMs: { sum: 3 * HOUR } });
  const [daily] = await readBuckets(log, 'daily', '1d', MONDAY + 4 * HOUR);
  expect(daily).toMatchObject({ started: 1, crashed: 1, errors: 0, failed: 0 });
  const [all] = await readBuckets(log, '*', '1w', MONDAY + 4 * HOUR);
  expect(all).toMatchObject({
    fromMs: MONDAY,
    untilMs: MONDAY + 7 * 24 * HOUR,
    started: 6,
    ended: 6,
    finished: 3,
    warned: 1,
  });
});

test('of the queue: jobs added, how long they were under way, and what its workers did', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const worker = await log.addPass('queue', MONDAY + 10 * MINUTE, { kind: 'queue' });
  log.change('update workers set tier = null, finished_at = ? where id = ?', MONDAY + 70 * MINUTE, worker);
  const fields = { worker_id: worker };
  await addRun(log, 'queue/mail', MONDAY + 10 * MINUTE, 20 * MINUTE, fields);
  await addRun(log, 'queue/mail', MONDAY + 50 * MINUTE, 20 * MINUTE, { ...fields, claim_number: 2 });
  log.change('update jobs set created_at = ?', MONDAY + MINUTE);
  log.change(
    `insert into jobs (name, ready, run_at, created_at) values ('mail?user=1', 1, ?, ?)`,
    MONDAY + 30 * MINUTE,
    MONDAY + 30 * MINUTE,
  );
  await close(log, MONDAY + HOUR);
  await close(log, MONDAY + 2 * HOUR);
  const [first, second] = await readBuckets(log, 'queue/mail', '1h', MONDAY + 2 * HOUR);
  expect(first).toMatchObject({ added: 3, started: 2, finished: 1, waiting: 1, waitingMs: 30 * MINUTE });
  expect(first?.serviceMs).toMatchObject({ count: 1, sum: 29 * MINUTE, min: 29 * MINUTE, max: 29 * MINUTE });
  expect(second?.serviceMs).toMatchObject({ count: 1, sum: 69 * MINUTE });
  const query = { period: '1h', sinceMs: MONDAY, untilMs: MONDAY + 2 * HOUR, nowMs: MONDAY + 2 * HOUR } as const;
  const { workers } = await readMetrics(log.store, query);
  const [queue] = workers.filter(({ tier }) => tier === 'queue');
  expect(queue?.buckets[0]).toMatchObject({ workers: 1, aliveMs: 50 * MINUTE, busyMs: 30 * MINUTE });
  const other = await log.addPass('queue', MONDAY + 2 * HOUR, { kind: 'queue' });
  log.change('update workers set tier = null, finished_at = ? where id = ?', MONDAY + 2 * HOUR + MINUTE, other);
  const third = await log.addPass('queue', MONDAY + 2 * HOUR, { kind: 'queue' });
  log.change('update workers set tier = null, finished_at = ? where id = ?', MONDAY + 2 * HOUR + 7 * MINUTE, third);
  await close(log, MONDAY + 3 * HOUR);
  const later = { ...query, untilMs: MONDAY + 3 * HOUR, nowMs: MONDAY + 3 * HOUR };
  const [all] = (await readMetrics(log.store, later)).workers.filter(({ tier }) => tier === 'queue');
  const spread = (bucket = all?.total) => [bucket?.aliveMinMs, bucket?.aliveMaxMs];
  expect(all?.buckets.map((bucket) => spread(bucket))).toEqual([
    [50 * MINUTE, 50 * MINUTE],
    [10 * MINUTE, 10 * MINUTE],
    [MINUTE, 7 * MINUTE],
  ]);
  expect(spread()).toEqual([MINUTE, 50 * MINUTE]);
  expect(queue?.buckets[0]).toMatchObject({ throughputMean: 1, throughputMax: 1, utilization: 0.5 });
  expect(queue?.buckets[1]).toMatchObject({ aliveMs: 10 * MINUTE, busyMs: 10 * MINUTE, utilization: 1 / 6 });
});

test('two days of downtime are caught up in few steps, and each hour is counted once', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await addRun(log, 'hourly/a', MONDAY, 1_000);
  await close(log, MONDAY + HOUR);
  await addRun(log, 'hourly/a', MONDAY + HOUR + MINUTE, 1_000);
  await addRun(log, 'hourly/a', MONDAY + 49 * HOUR, 1_000);
  const now = MONDAY + 50 * HOUR;
  expect(await log.store.chores.due(now, 1)).toMatchObject({ hours: true });
  let steps = 0;
  while ((await metricsOf(log.store.statements).countedUntil()) !== now) {
    await closeHours(log.store, () => now, 0);
    steps += 1;
  }
  expect(steps).toBeLessThanOrEqual(4);
  await close(log, now);
  expect(await log.store.chores.due(now, 1)).toMatchObject({ hours: false });
  const buckets = await readBuckets(log, 'hourly/a', '1h', now);
  expect(buckets.map(({ fromMs, finished }) => [(fromMs - MONDAY) / HOUR, finished])).toEqual([
    [0, 1],
    [1, 1],
    [49, 1],
  ]);
});

test('what is deleted before its hour is closed is counted all the same, and what comes late is added', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const now = MONDAY + HOUR;
  await addRun(log, 'queue/mail', MONDAY + MINUTE, 1_000);
  await addRun(log, 'hourly/a', MONDAY + MINUTE, 1_000, { suspect: 1 });
  const jobs = await log.db.selectFrom('jobs').select('id').execute();
  const before = await readBuckets(log, '*', '1h', now);
  await log.store.transaction(({ jobs: all }) => all.delete(jobs.map(({ id }) => id)));
  expect(await readBuckets(log, '*', '1h', now)).toEqual(before);
  await close(log, now);
  expect(await readBuckets(log, '*', '1h', now)).toEqual(before);
  expect(before).toMatchObject([{ added: 1, started: 2, finished: 2, warned: 1 }]);
  // A spool that is replayed, a clock that was set back.
  await addRun(log, 'hourly/a', MONDAY + 59 * MINUTE, 2 * MINUTE);
  expect(await log.store.chores.due(now + 1, 1)).toMatchObject({ hours: true });
  const late = [
    { started: 3, finished: 2, fromMs: MONDAY },
    { started: 0, finished: 1 },
  ];
  expect(await readBuckets(log, '*', '1h', now + 10 * MINUTE)).toMatchObject(late);
  await close(log, now + 10 * MINUTE);
  await close(log, now + HOUR);
  await close(log, now + HOUR);
  expect(await readBuckets(log, '*', '1h', now + HOUR)).toMatchObject(late);
  expect(await log.db.selectFrom('uncounted').selectAll().execute()).toEqual([]);
});

test('hours that were read are read again once one of them is counted, or counted again', async () => {
  const log = await writeLog(makeTemporaryRoot());
  const readEnded = async (): Promise<number[]> =>
    (await readBuckets(log, '*', '1d', MONDAY + 3 * HOUR)).map(({ ended }) => ended);
  await addRun(log, 'hourly/a', MONDAY, 1_000);
  expect(await readEnded()).toEqual([1]);
  await close(log, MONDAY + 2 * HOUR);
  expect(await readEnded()).toEqual([1]);
  // A spool that is replayed.
  await addRun(log, 'hourly/a', MONDAY + 30 * MINUTE, 1_000);
  expect(await readEnded()).toEqual([2]);
  await close(log, MONDAY + 2 * HOUR + 1);
  expect(await readEnded()).toEqual([2]);
});

test('nothing is counted twice of a clock that was hours ahead', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await addRun(log, 'hourly/a', MONDAY, 1_000);
  await close(log, MONDAY + 100 * HOUR);
  for (const hour of [1, 2, 3]) {
    await addRun(log, 'hourly/a', MONDAY + hour * HOUR, 1_000);
    await close(log, MONDAY + hour * HOUR + MINUTE);
  }
  const buckets = await readBuckets(log, 'hourly/a', '1h', MONDAY + 101 * HOUR);
  expect(buckets.map(({ finished }) => finished)).toEqual([1, 1, 1, 1]);
});

test('what is rolled up to any period is what raw runs give, whenever hours were closed', async () => {
  const outcomes = ['succeeded', 'failed', 'timed-out', 'crashed'] as const satisfies readonly Outcome[];
  const run = fc.record({
    script: fc.constantFrom('hourly/a', 'hourly/b', 'daily/c'),
    at: fc.integer({ min: 0, max: 20 * 24 * 60 }),
    ms: fc.oneof(fc.integer({ min: 1, max: 5_000 }), fc.integer({ min: 1, max: 9 * HOUR })),
    outcome: fc.constantFrom(...outcomes),
  });
  const runs = fc.array(run, { minLength: 1, maxLength: 12 });
  const times = fc.array(fc.integer({ min: 1, max: 21 * 24 }), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(runs, times, fc.constantFrom(...periods), async (history, closings, period) => {
      const log = await writeLog(makeTemporaryRoot());
      const ordered = history.toSorted((one, other) => one.at - other.at);
      const raw = ordered.map(({ script, at, ms, outcome }) => ({ script, at: MONDAY + at * MINUTE, ms, outcome }));
      const now = MONDAY + 22 * 24 * HOUR;
      // Some are closed in the middle: what comes after that of these hours comes late.
      for (const { script, at, ms, outcome } of raw) {
        await addRun(log, script, at, ms, { outcome, left_job: outcome === 'succeeded' ? null : 'failed' });
        const due = closings.filter((each) => MONDAY + each * HOUR <= at + 2 * HOUR);
        for (const hour of due.slice(-1)) await close(log, MONDAY + hour * HOUR);
      }
      const open = await readBuckets(log, '*', period, now);
      await close(log, now);
      const closed = await readBuckets(log, '*', period, now);
      expect(closed).toEqual(open);
      expectNaive(closed, raw, period);
    }),
    { numRuns: 10 },
  );
});

/** Many things of one instant, on both sides of the hour's ends, and what lasts or waits beyond them. */
async function writeCrowdedHour(log: WrittenLog) {
  const worker = await log.addPass('queue', MONDAY, { kind: 'queue' });
  log.change('update workers set tier = null, finished_at = ? where id = ?', MONDAY + 2 * HOUR, worker);
  let claims = 0;
  const add = (script: string, at: number, ms: number, fields: WrittenRun = {}) => {
    claims += 1;
    return addRun(log, script, at, ms, { worker_id: worker, claim_number: claims, ...fields });
  };
  for (const script of ['queue/mail', 'queue/sms', 'hourly/a']) {
    for (const at of [MONDAY - 1_000, MONDAY, MONDAY + MINUTE, MONDAY + MINUTE, MONDAY + HOUR - 1_000]) {
      await add(script, at, 0.1 + 1_000, { finished_at: at + 1_000 });
      await add(script, at, 2_000, { outcome: 'failed', left_job: script === 'hourly/a' ? 'retrying' : 'failed' });
    }
    await add(script, MONDAY - 90 * MINUTE, 2 * HOUR);
    await add(script, MONDAY - 90 * MINUTE, 4 * HOUR);
    await add(script, MONDAY - 3 * HOUR, 30 * MINUTE);
  }
  for (const at of [MONDAY - 2 * HOUR, MONDAY + 2 * MINUTE]) {
    await add('queue/sms', at, 0, { outcome: 'running', finished_at: null, duration_us: null });
  }
  const [job] = await log.db.selectFrom('jobs').select('id').where('name', '=', 'mail').execute();
  for (const at of [MONDAY - 1, ...Array(4).fill(MONDAY + 5), MONDAY + HOUR]) {
    log.change(`insert into events (at, event, job_id) values (?, 'job-failed', ?)`, at, job?.id);
  }
}

test('the same rows give the same figures, whatever the size of the pages in which they are read', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await writeCrowdedHour(log);
  const hour = { from: MONDAY, until: MONDAY + HOUR };
  const metrics = metricsOf(log.store.statements);
  const read = async (rowsAtOnce: number) => {
    const rows: MeasuredRow[] = [];
    await eachMeasured({ metrics, rowsAtOnce }, hour, (row) => rows.push(row));
    const figures = new HourlyFigures();
    const workers = new HourOfWorkers(hour, await metrics.workers(hour));
    for (const row of rows) {
      figures.add(row, hour);
      workers.add(row);
    }
    return { rows, figures: figures.toRows(), counters: figures.counters.toRows(), workers: workers.toRows() };
  };
  const whole = await read(1_000_000);
  // Of each script 8 began in the hour, and 4 before it that were not over; two go on, four have failed alone.
  expect(whole.rows).toHaveLength(3 * (8 + 4) + 2 + 4);
  expect(whole.workers).toMatchObject([{ kind: 'queue', workers: 1 }]);
  for (const rowsAtOnce of [1, 2, 3, 5, 7]) expect(await read(rowsAtOnce)).toEqual(whole);
});

test('what no row tells any more is read page by page, each of it once', async () => {
  const log = await writeLog(makeTemporaryRoot());
  await writeCrowdedHour(log);
  const jobs = await log.db.selectFrom('jobs').select('id').execute();
  await log.store.transaction(({ jobs: all }) => all.delete(jobs.map(({ id }) => id)));
  const metrics = metricsOf(log.store.statements);
  const read = async (rowsAtOnce: number) => {
    const ids: number[] = [];
    await eachUncounted({ metrics, rowsAtOnce }, MONDAY + 10 * HOUR, ({ id }) => ids.push(id));
    return ids;
  };
  const whole = await read(1_000_000);
  expect(whole.length).toBeGreaterThan(40);
  for (const rowsAtOnce of [1, 3, whole.length]) expect(await read(rowsAtOnce)).toEqual(whole);
});

test('how many are at work at once is what a look at each millisecond shows', () => {
  const [from, until] = [MONDAY, MONDAY + HOUR];
  const instant = fc.oneof(
    fc.integer({ min: from - 5, max: from + 20 }),
    fc.integer({ min: until - 10, max: until + 5 }),
  );
  const span = fc.tuple(instant, instant).map((ends) => ends.toSorted((one, other) => one - other));
  fc.assert(
    fc.property(fc.array(span, { maxLength: 12 }), (spans) => {
      const present = spans.map(([started_at = 0, finished_at = 0], id) => {
        return { id, kind: 'queue' as const, tier: null, state: 'finished' as const, started_at, finished_at };
      });
      const [row] = new HourOfWorkers({ from, until }, present).toRows();
      const within = spans.filter(([start = 0, end = 0]) => start < until && end >= from);
      // What begins and ends in one millisecond is there in it.
      const isThere =
        (at: number) =>
        ([start = 0, end = 0]: number[]) =>
          Math.max(start, from) <= at && at < Math.max(Math.min(end, until), Math.max(start, from) + 1);
      const looks = [...Array(30).keys()].flatMap((ms) => [from + ms, until - 15 + ms]);
      const most = Math.max(...looks.map((at) => within.filter(isThere(at)).length));
      expect(row?.peak ?? 0).toBe(most);
      expect(row?.workers ?? 0).toBe(within.length);
    }),
  );
});

interface RawRun {
  readonly at: number;
  readonly ms: number;
  readonly outcome: Outcome;
}

/** As computed from the runs themselves, without a histogram. */
function expectNaive(buckets: readonly MetricBucket[], raw: readonly RawRun[], period: Period): void {
  const isIn = (at: number, bucket: MetricBucket) => at >= bucket.fromMs && at < bucket.untilMs;
  const instants = raw.flatMap(({ at, ms }) => [at, at + ms]);
  const begins = new Set(instants.map((at) => periodAround(at, period).from));
  expect(buckets.map(({ fromMs }) => fromMs)).toEqual([...begins].sort((one, other) => one - other));
  for (const bucket of buckets) {
    const ended = raw.filter(({ at, ms }) => isIn(at + ms, bucket));
    const lengths = ended.map(({ ms }) => ms).sort((one, other) => one - other);
    const count = (outcome: Outcome) => ended.filter((each) => each.outcome === outcome).length;
    expect(bucket).toMatchObject({
      started: raw.filter(({ at }) => isIn(at, bucket)).length,
      ...{ ended: ended.length, finished: count('succeeded'), crashed: count('crashed') },
      failed: ended.length - count('succeeded'),
      runMs: {
        count: lengths.length,
        sum: lengths.length === 0 ? null : lengths.reduce((sum, ms) => sum + ms, 0),
        ...{ min: lengths[0] ?? null, max: lengths.at(-1) ?? null },
      },
    });
    for (const [share, value] of [[0.5, bucket.runMs.p50] as const, [0.95, bucket.runMs.p95] as const]) {
      const exact = lengths[Math.max(0, Math.ceil(share * lengths.length) - 1)] ?? null;
      if (exact === null) expect(value).toBeNull();
      else expect(Math.abs((value as number) - exact)).toBeLessThanOrEqual(exact * RELATIVE_ERROR * 1.0001);
    }
  }
}

const hexOf = (bytes: Uint8Array | null) => bytes && Buffer.from(bytes).toString('hex');

test('histograms that were kept and merged give the same quantiles as one of all values', () => {
  const values = fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { maxLength: 50 });
  fc.assert(
    fc.property(values, values, (some, others) => {
      const of = (all: readonly number[]) => {
        const histogram = new Histogram();
        for (const value of all) histogram.add(value);
        return histogram;
      };
      const merged = new Histogram();
      merged.decode(hexOf(of(some).encode()));
      merged.decode(hexOf(of(others).encode()));
      const all = of([...some, ...others]);
      expect(merged.encode()).toEqual(all.encode());
      expect(merged.total).toBe(some.length + others.length);
      expect(merged.quantiles(0.5, 0.95)).toEqual(all.quantiles(0.5, 0.95));
    }),
  );
  const hostile = new Histogram();
  hostile.decode('FFffff03c8');
  expect(hostile.total).toBe(0);
});

test('weeks begin on Monday, days and their parts at midnight in UTC', () => {
  expect(periodAround(MONDAY - 1, '1w')).toEqual({ from: MONDAY - 7 * 24 * HOUR, until: MONDAY });
  expect(periodAround(MONDAY, '1w').from).toBe(MONDAY);
  expect(periodAround(MONDAY + 13 * HOUR, '12h').from).toBe(MONDAY + 12 * HOUR);
  expect(periodAround(MONDAY + 13 * HOUR, '1d').from).toBe(MONDAY);
  expect(periodAround(-1, '6h')).toEqual({ from: -6 * HOUR, until: 0 });
});
