import type { CounterRow, MeasuredRow } from '../../store/contract.ts';

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
