import {
  type AddedJobs,
  type CounterRow,
  type MeasuredPage,
  type MeasuredRow,
  metricsOf,
  type PagePlace,
  type ScriptMetrics,
  type Span,
  type WorkerMetrics,
} from '../../store/statements/monitor/metrics.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { HOUR_MS, toMillis } from '../../system/base/values.ts';
import { Figures } from './figures.ts';
import { hourOf } from './periods.ts';
import { HourOfWorkers, mergeMeasured } from './workers.ts';

/** Totals that only grow, by script and outcome: how often, and how long in sum. */
export class Counters {
  readonly #rows = new Map<string, CounterRow>();

  /** Counts a job that was added; a run counts as it ends. */
  addStart({ what, name }: MeasuredRow): void {
    if (what === 'added') this.addJobs(name, 1);
  }

  addJobs(name: string, times: number): void {
    this.merge({ name, what: 'added', times, timed: 0, run_ms: 0, cpu_ms: 0 });
  }

  /** Counts a run that ended. */
  addEnd({ what, name, outcome, duration_us, cpu_us }: MeasuredRow): void {
    if (what !== 'run' || outcome === null) return;
    const timed = duration_us === null ? 0 : 1;
    const [run_ms, cpu_ms] = [toMillis(duration_us) ?? 0, toMillis(cpu_us) ?? 0];
    this.merge({ name, what: outcome, times: 1, timed, run_ms, cpu_ms });
  }

  merge(row: CounterRow): void {
    const key = JSON.stringify([row.name, row.what]);
    const { times = 0, timed = 0, run_ms = 0, cpu_ms = 0 } = this.#rows.get(key) ?? {};
    this.#rows.set(key, {
      ...{ name: row.name, what: row.what, times: times + row.times, timed: timed + row.timed },
      ...{ run_ms: run_ms + row.run_ms, cpu_ms: cpu_ms + row.cpu_ms },
    });
  }

  toRows(): readonly CounterRow[] {
    return [...this.#rows.values()];
  }
}

/** Figures of scripts by hour. */
export class HourlyFigures {
  /** The same for good, whatever hour it was in. */
  readonly counters = new Counters();
  readonly #byHour = new Map<number, Map<string, Figures>>();

  get isEmpty(): boolean {
    return this.#byHour.size === 0;
  }

  set(hour: number, name: string, figures: Figures): void {
    const scripts = this.#byHour.get(hour) ?? new Map<string, Figures>();
    this.#byHour.set(hour, scripts.set(name, figures));
  }

  of(hour: number, name: string): Figures {
    const scripts = this.#byHour.get(hour) ?? new Map<string, Figures>();
    this.#byHour.set(hour, scripts);
    const figures = scripts.get(name) ?? new Figures();
    scripts.set(name, figures);
    return figures;
  }

  *entries(): Generator<{ readonly hour: number; readonly name: string; readonly figures: Figures }> {
    for (const [hour, scripts] of this.#byHour) {
      for (const [name, figures] of scripts) yield { hour, name, figures };
    }
  }

  /** Counts the row's start and end, if they lie within the span and were not counted before. */
  add(row: MeasuredRow, { from, until }: Span): void {
    const { name, started_at: start, finished_at: end } = row;
    const isWithin = (at: number | null): at is number => at !== null && at >= from && at < until;
    if (row.counts_start === 1 && isWithin(start)) {
      this.of(hourOf(start), name).addStart(row);
      this.counters.addStart(row);
    }
    if (row.counts_end === 1 && isWithin(end)) {
      this.of(hourOf(end), name).addEnd(row);
      this.counters.addEnd(row);
    }
  }

  addJobs({ name, hour, jobs }: AddedJobs): void {
    this.of(hour, name).added += jobs;
    this.counters.addJobs(name, jobs);
  }

  /** Adds what was counted before: all of it is written anew. */
  async addKnown(metrics: MetricStatements): Promise<void> {
    for (const [hour, scripts] of this.#byHour) {
      for (const row of await metrics.read({ from: hour, until: hour + 1 }, [...scripts.keys()])) {
        const figures = this.of(hour, row.name);
        const before = Figures.fromRow(row);
        figures.merge(before);
        figures.mergeWaiting(before);
      }
    }
  }

  toRows(): ScriptMetrics[] {
    return [...this.entries()].map(({ hour, name, figures }) => figures.toRow(name, hour));
  }
}

/** Most rows in memory at once. */
const ROWS_AT_ONCE = 2_000;

export type MetricStatements = ReturnType<typeof metricsOf>;

/** Passes each row of a span to `take`; an hour may have a million. */
export function eachMeasured({ metrics, rowsAtOnce = ROWS_AT_ONCE }: Reading, span: Span, take: Take): Promise<void> {
  return eachRow((after) => metrics.measured(span, after, rowsAtOnce), take);
}

/** Passes each record that has no row any more, or came too late. */
export function eachUncounted({ metrics, rowsAtOnce = ROWS_AT_ONCE }: Reading, before: number, take: Take) {
  return eachRow((after) => metrics.uncounted(before, after, rowsAtOnce), take);
}

interface Reading {
  readonly metrics: MetricStatements;
  readonly rowsAtOnce?: number;
}

type Take = (row: MeasuredRow) => void;

async function eachRow(read: (after: PagePlace | null) => Promise<MeasuredPage>, take: Take): Promise<void> {
  let after: PagePlace | null = null;
  do {
    const page: MeasuredPage = await read(after);
    for (const row of page.rows) take(row);
    after = page.next;
  } while (after !== null);
}

interface Measuring {
  readonly now: number;
  readonly scripts: HourlyFigures;
  /** Selects scripts by name; default: all. */
  readonly isOf?: (name: string) => boolean;
}

/** Opens an hour that nobody has counted yet. */
export async function openHour(metrics: MetricStatements, span: Span) {
  const present = new HourOfWorkers(span, await metrics.workers(span));
  let isEmpty = true;
  const count = (row: MeasuredRow): void => {
    isEmpty = false;
    present.add(row);
  };
  return {
    /** Counts a record that has no row any more; a late one with a row is counted with the other rows. */
    addLate: (row: MeasuredRow): void => {
      if (!hasRow(row, span.from)) count(row);
    },
    /** Adds all rows of the hour to the scripts. It is empty if nothing happened in it and no worker was present. */
    measure: async ({ now, scripts, isOf = () => true }: Measuring) => {
      await eachMeasured({ metrics }, span, (row) => {
        count(row);
        if (isOf(row.name)) scripts.add(row, span);
      });
      for (const added of await metrics.added(span)) {
        isEmpty = false;
        if (isOf(added.name)) scripts.addJobs(added);
      }
      if (now - span.until < HOUR_MS / 4) await addWaiting(metrics, span, scripts, isOf);
      const workers = present.toRows();
      return { workers, isEmpty: isEmpty && workers.length === 0 };
    },
  };
}

/** Whether an uncounted record came late, so that its row exists: a record of an open hour replaces a row that is gone. */
function hasRow({ counts_start, counts_end, started_at, finished_at }: MeasuredRow, countedUntil: number): boolean {
  const isOpen = (counts: number, at: number | null) => counts === 1 && at !== null && at >= countedUntil;
  return !isOpen(counts_start, started_at) && !isOpen(counts_end, finished_at);
}

/** Counts the jobs that waited at the end of the hour; long after it, that is not known any more. */
async function addWaiting(
  metrics: MetricStatements,
  { from, until }: Span,
  scripts: HourlyFigures,
  isOf: (name: string) => boolean,
): Promise<void> {
  for (const { name, jobs, since } of await metrics.waiting(until)) {
    if (!isOf(name)) continue;
    scripts.of(from, name).mergeWaiting({ waiting: jobs, waitingMs: until - since });
  }
}

/** Longest time that one invocation spends on a backlog, in milliseconds; the next ones continue. */
const BUDGET_MS = 250;

/** Five years, so that this year is seen beside those before it. */
const KEPT_MS = 5 * 365 * 24 * HOUR_MS;
const PRUNED_ROWS = 2_000;

/**
 * Counts every hour that is over, the oldest first, and what became known late of those that were counted. Each hour
 * is one transaction: whoever is killed has counted it whole or not at all, and of two at the same time one comes
 * second and finds it counted.
 *
 * @param now UTC epoch milliseconds
 * @param budgetMs after this time no further hour is begun
 */
export async function closeHours(store: Store, now: () => number, budgetMs = BUDGET_MS): Promise<void> {
  const begun = performance.now();
  let isMore = true;
  while (isMore) {
    isMore = await store.transaction((session) => closeNext(session, now()), 'soon');
    if (performance.now() - begun >= budgetMs) break;
  }
  await metricsOf(store.statements).prune(now() - KEPT_MS, PRUNED_ROWS);
}

/** The least of all instants. */
const BEGINNING = -8_640_000_000_000_000;

/** @returns whether there is another one */
async function closeNext(session: StoreSession, now: number): Promise<boolean> {
  const metrics = metricsOf(session.statements);
  await metrics.lock();
  const over = hourOf(now);
  const known = await metrics.countedUntil();
  const from = known ?? Math.min(hourOf((await metrics.nextAt(BEGINNING)) ?? now), over);
  const until = from < over ? from + HOUR_MS : from;
  const scripts = new HourlyFigures();
  const open = from < until ? await openHour(metrics, { from, until }) : null;
  const hoursAgain = new Set<number>();
  let isLate = false;
  await eachUncounted({ metrics }, until, (row) => {
    isLate = true;
    scripts.add(row, { from: BEGINNING, until });
    open?.addLate(row);
    if (hasRow(row, from)) for (const hour of hoursOf(row, from)) hoursAgain.add(hour);
  });
  const again = await measureAgain(metrics, hoursAgain);
  const hour = (await open?.measure({ now, scripts })) ?? null;
  await scripts.addKnown(metrics);
  await metrics.write(scripts.toRows(), [...again, ...(hour?.workers ?? [])]);
  await metrics.addCounters(scripts.counters.toRows());
  // Whole days without anything are one step.
  const next = hour?.isEmpty ? Math.min(hourOf((await metrics.nextAt(until)) ?? over), over) : until;
  if (next !== known || isLate) await metrics.setCountedUntil(next, isLate ? now : undefined);
  return next < over;
}

/** So far back workers are measured again; before that, too much may be gone by now. */
const AGAIN_MS = 7 * 24 * HOUR_MS;

/** Workers of hours that were counted before runs of theirs became known. */
async function measureAgain(metrics: MetricStatements, hours: ReadonlySet<number>): Promise<WorkerMetrics[]> {
  const rows: WorkerMetrics[] = [];
  for (const from of hours) {
    const span = { from, until: from + HOUR_MS };
    const before = await metrics.readWorkers({ from, until: from + 1 });
    const workers = new HourOfWorkers(span, await metrics.workers(span));
    await eachMeasured({ metrics }, span, (row) => workers.add(row));
    for (const row of workers.toRows()) {
      const known = before.find(({ kind, tier }) => kind === row.kind && tier === row.tier);
      rows.push(known === undefined ? row : mergeMeasured(known, row));
    }
  }
  return rows;
}

function hoursOf({ started_at, finished_at }: MeasuredRow, countedUntil: number): number[] {
  const end = Math.min(finished_at ?? started_at ?? countedUntil, countedUntil - 1);
  const first = Math.max(hourOf(started_at ?? end), hourOf(countedUntil) - AGAIN_MS);
  const hours: number[] = [];
  for (let hour = first; hour <= end; hour += HOUR_MS) hours.push(hour);
  return hours;
}
