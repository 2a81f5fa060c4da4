import type { CounterRow } from '../../store/contract/alerts.ts';
import type { MeasuredRow, ScriptMetrics, Span, WorkerMetrics } from '../../store/contract/metrics.ts';
import type { StoreSession } from '../../store/contract/store.ts';
import { Figures } from './figures.ts';
import { HOUR_MS, hourOf } from './periods.ts';
import { measureWorkers } from './workers.ts';

/** What only grows, by script and by what happened: how often, and how long that took. */
export class Counters {
  readonly #rows = new Map<string, CounterRow>();

  /** Counts a job that was added; a run counts as it ends. */
  addStart({ what, name }: MeasuredRow): void {
    if (what === 'added') this.merge({ name, what, times: 1, timed: 0, run_ms: 0, cpu_ms: 0 });
  }

  /** Counts a run that ended. */
  addEnd({ what, name, outcome, duration_ms, cpu_ms }: MeasuredRow): void {
    if (what !== 'run' || outcome === null) return;
    const timed = duration_ms === null ? 0 : 1;
    this.merge({ name, what: outcome, times: 1, timed, run_ms: duration_ms ?? 0, cpu_ms: cpu_ms ?? 0 });
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

  /** Adds what was counted before: all of it is written anew. */
  async addKnown({ metrics }: StoreSession): Promise<void> {
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

interface MeasuredHour {
  /** What they did in it. */
  readonly workers: readonly WorkerMetrics[];
  /** Nothing happened, and nothing goes on into the next one. */
  readonly isEmpty: boolean;
}

interface Measuring {
  readonly now: number;
  /** What no row tells any more, or came too late. */
  readonly late: readonly MeasuredRow[];
  readonly scripts: HourlyFigures;
  /** Of which scripts; default: all. */
  readonly isOf?: (name: string) => boolean;
}

/** Adds what rows tell of an hour that nobody has counted yet. */
export async function measureHour(
  session: StoreSession,
  span: Span,
  { now, late, scripts, isOf = () => true }: Measuring,
): Promise<MeasuredHour> {
  const rows = await session.metrics.measured(span);
  for (const row of rows) if (isOf(row.name)) scripts.add(row, span);
  if (now - span.until < HOUR_MS / 4) await addWaiting(session, span, scripts, isOf);
  // What was written too late has a row, which is among the others.
  const deleted = late.filter((row) => !hasRow(row, span.from));
  const workers = measureWorkers(span, await session.metrics.workers(span), [...rows, ...deleted]);
  return { workers, isEmpty: rows.length + workers.length + deleted.length === 0 };
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
  { metrics }: StoreSession,
  { from, until }: Span,
  scripts: HourlyFigures,
  isOf: (name: string) => boolean,
): Promise<void> {
  for (const { name, jobs, since } of await metrics.waiting(until)) {
    if (!isOf(name)) continue;
    scripts.of(from, name).mergeWaiting({ waiting: jobs, waitingMs: until - since });
  }
}
