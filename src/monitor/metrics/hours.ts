import type {
  AddedJobs,
  CounterRow,
  MeasuredPage,
  MeasuredRow,
  metricsOf,
  PagePlace,
  ScriptMetrics,
  Span,
  WorkerMetrics,
} from '../../store/statements/monitor/metrics.ts';
import { toMillis } from '../../system/base/values.ts';
import { Figures } from './figures.ts';
import { HOUR_MS, hourOf } from './periods.ts';
import { HourOfWorkers } from './workers.ts';

/** What only grows, by script and by what happened: how often, and how long that took. */
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

  /** What of it lies within the span, and is to be counted at all. */
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

/** So many rows are in memory at once. */
const ROWS_AT_ONCE = 2_000;

export type MetricStatements = ReturnType<typeof metricsOf>;

/** Hands over what rows tell of some time, one after the other: of an hour there may be a million. */
export function eachMeasured({ metrics, rowsAtOnce = ROWS_AT_ONCE }: Reading, span: Span, take: Take): Promise<void> {
  return eachRow((after) => metrics.measured(span, after, rowsAtOnce), take);
}

/** The same of what no row tells any more, or came too late. */
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

interface MeasuredHour {
  /** What they did in it. */
  readonly workers: readonly WorkerMetrics[];
  /** Nothing happened, and nothing goes on into the next one. */
  readonly isEmpty: boolean;
}

interface Measuring {
  readonly now: number;
  readonly scripts: HourlyFigures;
  /** Of which scripts; default: all. */
  readonly isOf?: (name: string) => boolean;
}

/** An hour that nobody has counted yet. */
export class OpenHour {
  readonly #metrics: MetricStatements;
  readonly #span: Span;
  readonly #workers: HourOfWorkers;
  #isEmpty = true;

  private constructor(metrics: MetricStatements, span: Span, workers: HourOfWorkers) {
    this.#metrics = metrics;
    this.#span = span;
    this.#workers = workers;
  }

  static async open(metrics: MetricStatements, span: Span): Promise<OpenHour> {
    return new OpenHour(metrics, span, new HourOfWorkers(span, await metrics.workers(span)));
  }

  /** What no row tells any more, or came too late: what came too late has a row, which is among the others. */
  addLate(row: MeasuredRow): void {
    if (hasRow(row, this.#span.from)) return;
    this.#isEmpty = false;
    this.#workers.add(row);
  }

  /** Adds what rows tell of it. */
  async measure({ now, scripts, isOf = () => true }: Measuring): Promise<MeasuredHour> {
    const span = this.#span;
    await eachMeasured({ metrics: this.#metrics }, span, (row) => {
      this.#isEmpty = false;
      this.#workers.add(row);
      if (isOf(row.name)) scripts.add(row, span);
    });
    for (const added of await this.#metrics.added(span)) {
      this.#isEmpty = false;
      if (isOf(added.name)) scripts.addJobs(added);
    }
    if (now - span.until < HOUR_MS / 4) await addWaiting(this.#metrics, span, scripts, isOf);
    const workers = this.#workers.toRows();
    return { workers, isEmpty: this.#isEmpty && workers.length === 0 };
  }
}

export function hasRow(
  { counts_start, counts_end, started_at, finished_at }: MeasuredRow,
  countedUntil: number,
): boolean {
  const isOpen = (counts: number, at: number | null) => counts === 1 && at !== null && at >= countedUntil;
  return !isOpen(counts_start, started_at) && !isOpen(counts_end, finished_at);
}

/** Long after the hour nobody knows any more what waited at its end. */
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
