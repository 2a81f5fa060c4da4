import type { MeasuredRow, PresentWorker, Span, WorkerMetrics } from '../../store/statements/monitor/metrics.ts';
import { leastOf, mostOf } from './figures.ts';

/** The figures of the workers of each kind and tier within one hour. */
export class HourOfWorkers {
  readonly #span: Span;
  readonly #groups = new Map<string, Group>();
  readonly #groupOf = new Map<number, Group>();

  constructor(span: Span, workers: readonly PresentWorker[]) {
    this.#span = span;
    for (const worker of workers) {
      const key = `${worker.kind} ${worker.tier ?? ''}`;
      const group = this.#groups.get(key) ?? new Group(worker, span);
      this.#groups.set(key, group);
      this.#groupOf.set(worker.id, group);
      group.addWorker(worker);
    }
  }

  /** A run of any worker, at any time. */
  add(row: MeasuredRow): void {
    if (row.what === 'run') this.#groupOf.get(row.worker_id ?? 0)?.addRun(row);
  }

  toRows(): WorkerMetrics[] {
    return [...this.#groups.values()]
      .map((group) => group.toRow(this.#span.from))
      .filter(({ workers, skipped }) => workers + skipped > 0);
  }
}

class Group {
  readonly #worker: PresentWorker;
  readonly #span: Span;
  readonly #present: Presence;
  readonly #runs: Presence;
  /** How many jobs each worker has finished or failed. */
  readonly #jobs = new Map<number, number>();
  #skipped = 0;
  #crashed = 0;

  constructor(worker: PresentWorker, span: Span) {
    this.#worker = worker;
    this.#span = span;
    this.#present = new Presence(span);
    this.#runs = new Presence(span);
  }

  addWorker({ state, started_at, finished_at }: PresentWorker): void {
    const { from, until } = this.#span;
    const isEnd = finished_at !== null && finished_at >= from && finished_at < until;
    if (state === 'skipped') this.#skipped += Number(isEnd);
    else this.#present.add(started_at, finished_at);
    if (state === 'crashed') this.#crashed += Number(isEnd);
  }

  addRun({ started_at, finished_at, worker_id, outcome, left_job }: MeasuredRow): void {
    const { from, until } = this.#span;
    if (started_at !== null) this.#runs.add(started_at, finished_at);
    const isDone = (outcome === 'succeeded' && left_job === null) || left_job === 'failed';
    if (!isDone || finished_at === null || finished_at < from || finished_at >= until) return;
    this.#jobs.set(worker_id as number, (this.#jobs.get(worker_id as number) ?? 0) + 1);
  }

  toRow(hour: number): WorkerMetrics {
    const { kind, tier } = this.#worker;
    const each = [...this.#jobs.values()];
    return {
      ...{ kind, tier: tier ?? 'queue', hour, workers: this.#present.count },
      ...{ skipped: this.#skipped, crashed: this.#crashed },
      ...{ alive_ms: this.#present.totalMs, busy_ms: this.#runs.totalMs },
      ...{ alive_min_ms: this.#present.shortestMs, alive_max_ms: this.#present.longestMs },
      jobs: each.reduce((sum, count) => sum + count, 0),
      max_jobs: each.reduce((most, count) => Math.max(most, count), 0),
      peak: Math.max(this.#present.mostAtOnce(), this.#runs.mostAtOnce()),
    };
  }
}

const SECOND_MS = 1_000;

/**
 * Counts the workers or runs present within an hour, in bounded memory: per millisecond, how many more began than ended. A second takes memory only if something changes in it.
 */
class Presence {
  readonly #span: Span;
  readonly #seconds = new Map<number, Int32Array>();
  count = 0;
  totalMs = 0;
  shortestMs: number | null = null;
  longestMs: number | null = null;

  constructor(span: Span) {
    this.#span = span;
  }

  /** A start and an end in the same millisecond count as present; without an end, present to the end of the hour. */
  add(start: number, end: number | null): void {
    const { from, until } = this.#span;
    if (start >= until || (end !== null && end < from)) return;
    const begin = Math.max(start, from);
    const over = Math.max(begin, Math.min(end ?? until, until));
    this.count += 1;
    const lastedMs = over - begin;
    this.totalMs += lastedMs;
    this.shortestMs = leastOf(this.shortestMs, lastedMs);
    this.longestMs = mostOf(this.longestMs, lastedMs);
    this.#change(begin, 1);
    this.#change(Math.max(over, begin + 1), -1);
  }

  #change(at: number, by: 1 | -1): void {
    const second = Math.floor(at / SECOND_MS);
    const changes = this.#seconds.get(second) ?? new Int32Array(SECOND_MS);
    this.#seconds.set(second, changes);
    const within = at - second * SECOND_MS;
    changes[within] = (changes[within] ?? 0) + by;
  }

  /** If one ends as another begins, they are not present at the same time. */
  mostAtOnce(): number {
    let now = 0;
    let most = 0;
    for (const [, changes] of [...this.#seconds].sort(([one], [other]) => one - other)) {
      for (const change of changes) {
        now += change;
        most = Math.max(most, now);
      }
    }
    return most;
  }
}

/** Merges two measurements of one hour: late rows add to it, and pruned rows take nothing away. */
export function mergeMeasured(one: WorkerMetrics, other: WorkerMetrics): WorkerMetrics {
  const max = (column: 'workers' | 'skipped' | 'crashed' | 'alive_ms' | 'busy_ms' | 'jobs' | 'max_jobs' | 'peak') =>
    Math.max(one[column], other[column]);
  return {
    ...one,
    ...{ workers: max('workers'), skipped: max('skipped'), crashed: max('crashed') },
    ...{ alive_ms: max('alive_ms'), busy_ms: max('busy_ms'), jobs: max('jobs') },
    ...{ max_jobs: max('max_jobs'), peak: max('peak') },
    alive_min_ms: leastOf(one.alive_min_ms, other.alive_min_ms),
    alive_max_ms: mostOf(one.alive_max_ms, other.alive_max_ms),
  };
}
