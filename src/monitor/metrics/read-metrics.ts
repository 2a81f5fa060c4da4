import { type KeptMetrics, metricsOf, type Span, type WorkerMetrics } from '../../store/statements/monitor/metrics.ts';
import type { StoreSession } from '../../store/store.ts';
import { field, record, shown, type Values } from '../../system/base/record.ts';
import { DAY_MS, HOUR_MS } from '../../system/base/values.ts';
import { Figures, leastOf, mostOf } from './figures.ts';
import { eachUncounted, HourlyFigures, type MetricStatements, openHour } from './hours.ts';
import { hourOf, type Period, periodAround, periods } from './periods.ts';

export interface MetricsQuery {
  readonly period: Period;
  /** UTC epoch milliseconds. The periods that this lies within are read whole. */
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Hours that are not closed yet are measured up to now. */
  readonly nowMs: number;
  /**
   * Scripts and handlers (`hourly/clean-tmp`, `queue/mail/welcome`), tiers (`hourly`, `queue`), and `*` for all
   * together. Default: each of them that anything happened of.
   */
  readonly subjects?: readonly string[] | undefined;
  /** The subject whose periods are listed; others have their totals alone. Default: each of them. */
  readonly buckets?: string | undefined;
  /** Chooses from the periods of a subject. Default: all. */
  readonly cut?: Cut;
}

type Cut = <Bucket>(buckets: readonly Bucket[]) => readonly Bucket[];

const known = shown.number.orNull;

/** Quantiles are at most 1% off. */
const spreadRecord = record('Spread', {
  count: shown.integer,
  sum: known,
  mean: known,
  min: known,
  max: known,
  p50: known,
  p95: known,
  p99: known,
});

/** One period; unknown figures are null. Durations are in milliseconds. */
const bucketRecord = record('MetricBucket', {
  from: shown.instant,
  until: shown.instant,
  /** Jobs of the queue that were added. */
  added: shown.integer,
  /** Runs that began in it, and those that ended in it. */
  started: shown.integer,
  ended: shown.integer,
  /** Jobs that finished; tries that failed, and are followed by another; jobs that failed for good. */
  finished: shown.integer,
  errors: shown.integer,
  failed: shown.integer,
  crashed: shown.integer,
  /** Runs that succeeded, though their output says otherwise. */
  warned: shown.integer,
  /** How long runs took. */
  runMs: shown.one(spreadRecord),
  /** How long jobs of the queue took since they were added until they finished or failed. */
  serviceMs: shown.one(spreadRecord),
  cpuMs: known,
  /** How many runs that is the CPU time of. */
  cpuRuns: shown.integer,
  maxRssBytes: known,
  /** How long after their time first tries began. */
  lateMs: shown.one(record(null, { mean: known, max: known })),
  /** The most jobs that were due and waited at the end of an hour, and the longest that one of them had. */
  waiting: known,
  waitingMs: known,
});

export type MetricBucket = Values<typeof bucketRecord>;

const seriesRecord = record(null, {
  subject: shown.text.like('hourly/clean-tmp'),
  kind: shown.words(['all', 'tier', 'script']),
  /** All of the time together. */
  total: shown.one(bucketRecord),
  /** The oldest first; a period in which nothing happened has none. */
  buckets: shown.list(field.one(bucketRecord)),
});

export type MetricSeries = Values<typeof seriesRecord>;

const workerBucketRecord = record('WorkerBucket', {
  from: shown.instant,
  until: shown.instant,
  /** Those at work; one that works on into the next hour counts in both. */
  workers: shown.integer,
  skipped: shown.integer,
  crashed: shown.integer,
  /** How long they were there, and how long runs took, all added up. */
  aliveMs: shown.number,
  /** The shortest and the longest that one of them was there within an hour; null: nobody was. */
  aliveMinMs: known,
  aliveMaxMs: known,
  busyMs: shown.number,
  /** Jobs that a worker finished or failed in an hour; null: there was none. */
  throughputMean: known,
  throughputMax: known,
  /**
   * From 0 to 1: how long runs took, of what was possible if as many as were there at the same time at most had
   * worked through each hour in which anybody was; null: nobody was.
   */
  utilization: known,
});

export type WorkerBucket = Values<typeof workerBucketRecord>;

const workerSeriesRecord = record(null, {
  tier: shown.text.like('hourly'),
  total: shown.one(workerBucketRecord),
  buckets: shown.list(field.one(workerBucketRecord)),
});

type WorkerSeries = Values<typeof workerSeriesRecord>;

/** Figures by subject and period: `runner metrics --json`. */
export const metricsRecord = record('Metrics', {
  period: shown.words(periods, 'Period'),
  /** When the first period begins and the last one ends. */
  since: shown.instant,
  until: shown.instant,
  cpuLimit: known.about('How many CPUs this user may use; null: no limit'),
  /** `*` first, then tiers, then scripts, each by name. */
  series: shown.list(field.one(seriesRecord)),
  /** By tier, `queue` of those that process the queue. */
  workers: shown.list(field.one(workerSeriesRecord)),
});

export type Metrics = Omit<Values<typeof metricsRecord>, 'cpuLimit'>;

/**
 * Reads what happened in each period: of hours that are closed what is kept of them, of the others what rows tell so
 * far. Nothing is changed by it.
 *
 * @example
 * ```ts
 * const day = { period: '1h', sinceMs: now - 86_400_000, untilMs: now, nowMs: now } as const;
 * const { series } = await readMetrics(store, { ...day, subjects: ['hourly/clean-tmp'] });
 * series[0]?.buckets.at(-1)?.runMs.p95; // 41234
 * ```
 */
export async function readMetrics(session: StoreSession, query: MetricsQuery): Promise<Metrics> {
  const { period, cut = (all) => all } = query;
  const sinceMs = periodAround(query.sinceMs, period).from;
  const untilMs = periodAround(Math.max(query.untilMs - 1, query.sinceMs), period).until;
  const span = { from: sinceMs, until: untilMs };
  const { scripts, workers } = await readHours(session, span, query);
  const isWanted = (subject: string) => query.subjects?.includes(subject) ?? true;
  return {
    ...{ period, sinceMs, untilMs },
    series: scripts.toSeries(isWanted, span, (subject) => (subject === (query.buckets ?? subject) ? cut : none)),
    workers: rollUpWorkers(
      workers.filter(({ tier }) => isWanted(tier)),
      { period, cut, span },
    ),
  };
}

const none = <Bucket>(): readonly Bucket[] => [];

/** Null: a tier, or all, is made up of many. */
function namesOf(subjects: readonly string[] | undefined): readonly string[] | null {
  return subjects?.every((subject) => subject.includes('/')) ? subjects : null;
}

interface SummedHours {
  readonly scripts: SummedScripts;
  readonly workers: readonly WorkerMetrics[];
}

/** Sums up all hours of the span. */
async function readHours(session: StoreSession, span: Span, query: MetricsQuery): Promise<SummedHours> {
  const { nowMs } = query;
  const metrics = metricsOf(session.statements);
  const closed = await readClosed(session, span, query);
  const scripts = closed.isKept ? SummedScripts.copyOf(closed.scripts) : closed.scripts;
  const workers = [...closed.workers];
  const uncounted = new HourlyFigures();
  const names = namesOf(query.subjects);
  const isOf = (name: string) => names === null || names.includes(name);
  const until = Math.min(span.until, nowMs + 1);
  let isLate = false;
  await eachUncounted({ metrics }, until, (row) => {
    isLate = true;
    if (isOf(row.name)) uncounted.add(row, span);
  });
  let from = await firstOpenHour(metrics, span.from);
  while (from !== null && from < until) {
    const hour = { from, until: Math.min(from + HOUR_MS, until) };
    const open = await openHour(metrics, hour);
    if (isLate) await eachUncounted({ metrics }, until, (row) => open.addLate(row));
    const measured = await open.measure({ now: nowMs, scripts: uncounted, isOf });
    workers.push(...measured.workers);
    const next = measured.isEmpty ? await metrics.nextAt(from + HOUR_MS) : from + HOUR_MS;
    from = next === null ? null : hourOf(next);
  }
  for (const { hour, name, figures } of uncounted.entries()) scripts.addHour(name, hour, figures);
  return { scripts, workers };
}

/** Closed hours of a span, summed up. */
interface Closed extends SummedHours {
  /** Whether others get it, too, so that nothing may be added to it. */
  readonly isKept: boolean;
}

/**
 * The latest answers about each log: viewers ask again after each change, and a year has many hours. Their keys are
 * other texts for other questions, and once any of these hours was counted or counted again.
 */
const lastClosed = new WeakMap<StoreSession, Map<string, Closed & { readonly forgetting: NodeJS.Timeout }>>();
/** Since it was last asked for; a server gives memory back a little later. */
const KEPT_FOR_MS = 15_000;
/** Most periods of all answers together, some 25 MB; no page shows an answer of more than half as many. */
const MOST_PERIODS = 10_000;
const MOST_WORKERS = 30_000;

async function readClosed(session: StoreSession, span: Span, { period, subjects }: MetricsQuery): Promise<Closed> {
  const metrics = metricsOf(session.statements);
  const key = JSON.stringify([period, span, subjects ?? null, await metrics.version()]);
  const last = lastClosed.get(session)?.get(key);
  last?.forgetting.refresh();
  if (last !== undefined) return last;
  const closed = { scripts: new SummedScripts(period, subjects), workers: await metrics.readWorkers(span) };
  await eachKept(metrics, span, namesOf(subjects), (row) => closed.scripts.addRow(row));
  const isKept = closed.scripts.size <= MOST_PERIODS / 2;
  if (isKept) keepClosed(session, key, closed);
  return { ...closed, isKept };
}

function keepClosed(session: StoreSession, key: string, closed: SummedHours): void {
  const kept = lastClosed.get(session) ?? new Map();
  lastClosed.set(session, kept);
  const forgetting = setTimeout(() => kept.delete(key), KEPT_FOR_MS).unref();
  kept.set(key, { ...closed, isKept: true, forgetting });
  let [periods, workers] = [0, 0];
  // The newest first: what comes after the limit goes.
  for (const [other, each] of [...kept].reverse()) {
    periods += each.scripts.size;
    workers += each.workers.length;
    if (periods <= MOST_PERIODS && workers <= MOST_WORKERS) continue;
    clearTimeout(each.forgetting);
    kept.delete(other);
  }
}

/** Rows of a week are in memory at once, of all scripts, though a year has a hundred thousand. */
const WEEK_MS = 7 * DAY_MS;
/** Longer parts for a span that is very long: most of it is empty. */
const MOST_PARTS = 60;

async function eachKept(
  metrics: MetricStatements,
  { from, until }: Span,
  names: readonly string[] | null,
  take: (row: KeptMetrics) => void,
): Promise<void> {
  const length = Math.max(WEEK_MS, (until - from) / MOST_PARTS);
  for (let start = from; start < until; start += length) {
    const part = { from: start, until: Math.min(start + length, until) };
    for (const row of await metrics.read(part, names)) take(row);
  }
}

async function firstOpenHour(metrics: MetricStatements, from: number): Promise<number | null> {
  const counted = await metrics.countedUntil();
  const first = await metrics.nextAt(counted ?? from);
  return first === null && counted === null ? null : Math.max(counted ?? hourOf(first as number), from);
}

/** The figures of all scripts, each hour in the period that it lies in. */
class SummedScripts {
  readonly period: Period;
  /** Undefined: all. */
  readonly subjects: readonly string[] | undefined;
  readonly #scripts = new Map<string, Summed>();

  constructor(period: Period, subjects: readonly string[] | undefined) {
    this.period = period;
    this.subjects = subjects;
  }

  /** The number of periods of all scripts. */
  get size(): number {
    return [...this.#scripts.values()].reduce((sum, { size }) => sum + size, 0);
  }

  static copyOf(other: SummedScripts): SummedScripts {
    const copy = new SummedScripts(other.period, other.subjects);
    for (const [name, script] of other.#scripts) copy.#of(name).merge(script);
    return copy;
  }

  addRow(row: KeptMetrics): void {
    const script = this.#of(row.name);
    script.at(row.hour).addRow(row);
    script.addWaiting(row.hour, { waiting: row.waiting, waitingMs: row.waiting_ms });
  }

  addHour(name: string, hour: number, figures: Figures): void {
    const script = this.#of(name);
    script.at(hour).merge(figures);
    script.addWaiting(hour, figures);
  }

  /** A series for each wanted script, for the tiers of these, and for all together. */
  toSeries(isWanted: (subject: string) => boolean, span: Span, cutOf: (subject: string) => Cut): MetricSeries[] {
    const tiers = new Map<string, Summed>();
    const all = new Summed(this.period);
    for (const [name, script] of this.#scripts) {
      const tier = tiers.get(tierOf(name)) ?? new Summed(this.period);
      tiers.set(tierOf(name), tier);
      tier.merge(script);
    }
    for (const tier of tiers.values()) all.merge(tier);
    return [...(this.#scripts.size > 0 ? [['*', all] as const] : []), ...tiers, ...this.#scripts]
      .filter(([subject]) => isWanted(subject))
      .sort(([one], [other]) => compareSubjects(one, other))
      .map(([subject, summed]) => summed.toSeries(subject, span, cutOf(subject)));
  }

  #of(name: string): Summed {
    const known = this.#nameFor(name);
    const script = this.#scripts.get(known) ?? new Summed(this.period);
    this.#scripts.set(known, script);
    return script;
  }

  /** Scripts that nobody has asked for are one, `hourly/` or `/`: a year by hours has a bucket for each of its hours. */
  #nameFor(name: string): string {
    if (this.subjects === undefined || this.subjects.includes(name)) return name;
    const tier = tierOf(name);
    return this.subjects.includes(tier) ? `${tier}/` : '/';
  }
}

/** The figures of a script, or of all scripts of a subject. */
class Summed {
  readonly #period: Period;
  readonly #periods = new Map<number, Figures>();
  /** By hour: the waiting jobs of several handlers are added up for each hour; a period takes its worst hour. */
  readonly #waiting = new Map<number, Figures>();

  constructor(period: Period) {
    this.#period = period;
  }

  get size(): number {
    return this.#periods.size;
  }

  /** The figures of the period that it lies in. */
  at(ms: number): Figures {
    const { from } = periodAround(ms, this.#period);
    const figures = this.#periods.get(from) ?? new Figures();
    this.#periods.set(from, figures);
    return figures;
  }

  addWaiting(hour: number, waiting: Pick<Figures, 'waiting' | 'waitingMs'>): void {
    if (waiting.waiting === null) return;
    const atEnd = this.#waiting.get(hour) ?? new Figures();
    this.#waiting.set(hour, atEnd);
    atEnd.mergeWaiting(waiting);
  }

  merge(other: Summed): void {
    for (const [from, figures] of other.#periods) this.at(from).merge(figures);
    for (const [hour, figures] of other.#waiting) this.addWaiting(hour, figures);
  }

  toSeries(subject: string, span: Span, cut: Cut): MetricSeries {
    const total = new Figures();
    for (const [hour, figures] of this.#waiting) {
      this.at(hour).raiseWaiting(figures);
      total.raiseWaiting(figures);
    }
    const buckets = [...this.#periods].sort(([one], [other]) => one - other);
    for (const [, figures] of buckets) total.merge(figures);
    return {
      subject,
      kind: kindOf(subject),
      total: toBucket(total, span),
      buckets: cut(buckets).map(([from, figures]) => toBucket(figures, periodAround(from, this.#period))),
    };
  }
}

const tierOf = (name: string): string => name.split('/', 1)[0] as string;

const kindOf = (subject: string) =>
  subject === '*' ? ('all' as const) : subject.includes('/') ? ('script' as const) : ('tier' as const);

function compareSubjects(one: string, other: string): number {
  const order = ['all', 'tier', 'script'];
  return order.indexOf(kindOf(one)) - order.indexOf(kindOf(other)) || (one < other ? -1 : 1);
}

function toBucket(figures: Figures, { from, until }: Span): MetricBucket {
  const { added, started, ended, finished, errors, failed, crashed, warned, cpu, late } = figures;
  return {
    ...{ fromMs: from, untilMs: until, added, started, ended, finished, errors, failed, crashed, warned },
    runMs: figures.run.spread(),
    serviceMs: figures.service.spread(),
    ...{ cpuMs: cpu.sum, cpuRuns: cpu.count, maxRssBytes: figures.maxRssBytes },
    lateMs: { mean: late.mean, max: late.max },
    ...{ waiting: figures.waiting, waitingMs: figures.waitingMs },
  };
}

interface Roll {
  readonly period: Period;
  readonly cut: Cut;
  readonly span: Span;
}

function rollUpWorkers(rows: readonly WorkerMetrics[], { period, cut, span }: Roll): WorkerSeries[] {
  const tiers = Map.groupBy(rows, ({ tier }) => tier);
  return [...tiers]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([tier, all]) => ({
      tier,
      total: toWorkerBucket(all, span),
      buckets: cut(
        [...Map.groupBy(all, ({ hour }) => periodAround(hour, period).from)].sort(([one], [other]) => one - other),
      ).map(([from, each]) => toWorkerBucket(each, periodAround(from, period))),
    }));
}

function toWorkerBucket(rows: readonly WorkerMetrics[], { from, until }: Span): WorkerBucket {
  const sum = (of: (row: WorkerMetrics) => number) => rows.reduce((total, row) => total + of(row), 0);
  const workers = sum((row) => row.workers);
  const busyMs = sum((row) => row.busy_ms);
  const possibleMs = sum((row) => row.peak * HOUR_MS);
  return {
    ...{ fromMs: from, untilMs: until, workers, busyMs },
    ...{ skipped: sum((row) => row.skipped), crashed: sum((row) => row.crashed), aliveMs: sum((row) => row.alive_ms) },
    aliveMinMs: rows.reduce<number | null>((least, row) => leastOf(least, row.alive_min_ms), null),
    aliveMaxMs: rows.reduce<number | null>((most, row) => mostOf(most, row.alive_max_ms), null),
    throughputMean: workers === 0 ? null : sum((row) => row.jobs) / workers,
    throughputMax: workers === 0 ? null : Math.max(...rows.map((row) => row.max_jobs)),
    utilization: possibleMs === 0 ? null : busyMs / possibleMs,
  };
}
