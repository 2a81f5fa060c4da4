import type { KeptMetrics, MeasuredRow, ScriptMetrics } from '../../store/statements/monitor/metrics.ts';
import { isFailure } from '../../store/words.ts';
import { toMillis } from '../../system/base/values.ts';

/** The figures of a script, a tier or the site in a span of time; those of two spans can be added up. */
export class Figures {
  added = 0;
  started = 0;
  ended = 0;
  finished = 0;
  errors = 0;
  failed = 0;
  crashed = 0;
  warned = 0;
  readonly run = new Distribution();
  readonly service = new Distribution();
  readonly cpu = new Sum();
  readonly late = new Sum();
  maxRssBytes: number | null = null;
  /** As the last hour of it ended. */
  waiting: number | null = null;
  waitingMs: number | null = null;

  /** Counts the beginning of a run, or a job that was added. */
  addStart({ what, late_ms }: MeasuredRow): void {
    if (what === 'added') this.added += 1;
    else this.started += 1;
    this.late.add(late_ms);
  }

  /** Counts how a run ended, or that a job failed without one. */
  addEnd(row: MeasuredRow): void {
    const { what, outcome, left_job } = row;
    const isTriedAgain = outcome !== null && isFailure(outcome) && left_job !== 'failed' && left_job !== 'cancelled';
    this.finished += Number(outcome === 'succeeded' && left_job === null);
    this.failed += Number(left_job === 'failed');
    this.errors += Number(isTriedAgain);
    this.crashed += Number(outcome === 'crashed');
    this.warned += row.warned;
    this.service.add(row.service_ms);
    if (what !== 'run') return;
    this.ended += 1;
    this.run.add(toMillis(row.duration_us));
    this.cpu.add(toMillis(row.cpu_us));
    this.maxRssBytes = mostOf(this.maxRssBytes, row.max_rss_bytes);
  }

  merge(other: Figures): void {
    for (const count of counts) this[count] += other[count];
    this.run.merge(other.run);
    this.service.merge(other.service);
    this.cpu.merge(other.cpu);
    this.late.merge(other.late);
    this.maxRssBytes = mostOf(this.maxRssBytes, other.maxRssBytes);
  }

  /** Adds the jobs of another handler that wait at the same time. */
  mergeWaiting({ waiting, waitingMs }: Pick<Figures, 'waiting' | 'waitingMs'>): void {
    if (waiting === null) return;
    this.waiting = (this.waiting ?? 0) + waiting;
    this.waitingMs = mostOf(this.waitingMs, waitingMs);
  }

  /** Keeps the worse of two hours' ends. */
  raiseWaiting({ waiting, waitingMs }: Pick<Figures, 'waiting' | 'waitingMs'>): void {
    this.waiting = mostOf(this.waiting, waiting);
    this.waitingMs = mostOf(this.waitingMs, waitingMs);
  }

  /** Adds what is kept of an hour, but for the jobs that waited as it ended. */
  addRow(row: KeptMetrics): void {
    for (const count of counts) this[count] += row[count];
    this.run.addKept(row.run_histogram, row.run_ms, row.run_min_ms, row.run_max_ms);
    this.service.addKept(row.service_histogram, row.service_ms, row.service_min_ms, row.service_max_ms);
    this.cpu.addKnown(row.cpu_runs, row.cpu_ms, null);
    this.late.addKnown(row.late_runs, row.late_ms, row.late_max_ms);
    this.maxRssBytes = mostOf(this.maxRssBytes, row.max_rss_bytes);
  }

  static fromRow(row: KeptMetrics): Figures {
    const figures = new Figures();
    figures.addRow(row);
    figures.waiting = row.waiting;
    figures.waitingMs = row.waiting_ms;
    return figures;
  }

  toRow(name: string, hour: number): ScriptMetrics {
    const { added, started, ended, finished, errors, failed, crashed, warned, run, service, cpu, late } = this;
    return {
      ...{ name, hour, added, started, ended, finished, errors, failed, crashed, warned },
      ...{ run_ms: run.sum, run_min_ms: run.min, run_max_ms: run.max, run_histogram: run.histogram.encode() },
      ...{ service_ms: service.sum, service_min_ms: service.min, service_max_ms: service.max },
      service_histogram: service.histogram.encode(),
      ...{ cpu_runs: cpu.count, cpu_ms: cpu.sum, max_rss_bytes: this.maxRssBytes },
      ...{ late_runs: late.count, late_ms: late.sum, late_max_ms: late.max },
      ...{ waiting: this.waiting, waiting_ms: this.waitingMs },
    };
  }
}

const counts = ['added', 'started', 'ended', 'finished', 'errors', 'failed', 'crashed', 'warned'] as const;

/** The sum and maximum of values that may be unknown; null until one is known. */
class Sum {
  count = 0;
  sum: number | null = null;
  max: number | null = null;

  add(value: number | null): void {
    if (value !== null) this.addKnown(1, value, value);
  }

  merge({ count, sum, max }: Sum): void {
    this.addKnown(count, sum, max);
  }

  addKnown(count: number, sum: number | null, max: number | null): void {
    this.count += count;
    if (sum !== null) this.sum = (this.sum ?? 0) + sum;
    this.max = mostOf(this.max, max);
  }

  get mean(): number | null {
    return this.sum === null || this.count === 0 ? null : this.sum / this.count;
  }
}

/** The same with the least value and how they are distributed. */
class Distribution {
  readonly histogram = new Histogram();
  sum: number | null = null;
  min: number | null = null;
  max: number | null = null;

  add(value: number | null): void {
    if (value === null) return;
    this.histogram.add(value);
    this.#extend(value, value, value);
  }

  merge({ histogram, sum, min, max }: Distribution): void {
    this.histogram.merge(histogram);
    this.#extend(sum, min, max);
  }

  addKept(histogram: string | null, sum: number | null, min: number | null, max: number | null): void {
    this.histogram.decode(histogram);
    this.#extend(sum, min, max);
  }

  spread() {
    const { sum, min, max, histogram } = this;
    const count = histogram.total;
    const mean = sum === null || count === 0 ? null : sum / count;
    const [p50 = null, p95 = null, p99 = null] = histogram
      .quantiles(0.5, 0.95, 0.99)
      .map((value) => this.#within(value));
    return { count, sum, mean, min, max, p50, p95, p99 };
  }

  /** A quantile never lies outside of the minimum and maximum. */
  #within(value: number): number {
    return Math.min(Math.max(value, this.min ?? value), this.max ?? value);
  }

  #extend(sum: number | null, min: number | null, max: number | null): void {
    if (sum !== null) this.sum = (this.sum ?? 0) + sum;
    this.max = mostOf(this.max, max);
    this.min = leastOf(this.min, min);
  }
}

/** Null: none of them is known. */
export function leastOf(...values: readonly (number | null)[]): number | null {
  let least: number | null = null;
  for (const value of values) if (value !== null && (least === null || value < least)) least = value;
  return least;
}

/** The same of the highest. */
export function mostOf(...values: readonly (number | null)[]): number | null {
  let most: number | null = null;
  for (const value of values) if (value !== null && (most === null || value > most)) most = value;
  return most;
}

/** By how much a quantile is off at most. */
export const RELATIVE_ERROR = 0.01;

const GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);

/** In milliseconds: whatever is shorter or longer counts as that. */
const SHORTEST = 0.001;
const LONGEST = 1e12;

const LOWEST = bucketOf(SHORTEST);
const HIGHEST = bucketOf(LONGEST);

/**
 * The distribution of values in few bytes: a count for each bucket. Each bucket is 2% larger than the one before, so
 * any quantile has an error of at most 1%. Histograms of several hours add up to the same as if all values had been in
 * one: DDSketch (https://www.vldb.org/pvldb/vol12/p2195-masson.pdf).
 */
export class Histogram {
  /** Null: it is empty, as most of the many are that a year has. */
  #counts: Map<number, number> | null = null;
  #total = 0;

  /** How many values are in it. */
  get total(): number {
    return this.#total;
  }

  add(value: number): void {
    this.#count(bucketOf(value), 1);
  }

  merge(other: Histogram): void {
    for (const [bucket, count] of other.#counts ?? []) this.#count(bucket, count);
  }

  /** The values that these shares of all do not exceed, `0.95` for p95, the smallest first; empty: there are none. */
  quantiles(...shares: readonly number[]): readonly number[] {
    const found: number[] = [];
    let seen = 0;
    for (const [bucket, count] of this.#sorted()) {
      seen += count;
      for (; found.length < shares.length; found.push(middleOf(bucket))) {
        if (Math.ceil((shares[found.length] as number) * this.#total) > seen) break;
      }
    }
    return found;
  }

  /** Pairs of numbers: how far the bucket is from the one before, and its count; null where it is empty. */
  encode(): Uint8Array | null {
    const bytes: number[] = [];
    let last = LOWEST;
    for (const [bucket, count] of this.#sorted()) {
      pushNumber(bytes, bucket - last);
      pushNumber(bytes, count);
      last = bucket;
    }
    return bytes.length === 0 ? null : Uint8Array.from(bytes);
  }

  /**
   * Adds the values of an encoded one, whose bytes are hexadecimal digits. Bytes that are none are hostile input: of
   * them it takes what it can read.
   */
  decode(digits: string | null): void {
    let [bucket, number, place] = [LOWEST, 0, 1];
    let isCount = false;
    for (let at = 0; at < (digits?.length ?? 0); at += 2) {
      const byte = 16 * digitAt(digits as string, at) + digitAt(digits as string, at + 1);
      number += (byte % 128) * place;
      place *= 128;
      if (byte >= 128) continue;
      if (isCount) this.#count(Math.min(bucket, HIGHEST), number);
      else bucket += number;
      isCount = !isCount;
      number = 0;
      place = 1;
    }
  }

  #count(bucket: number, count: number): void {
    this.#counts ??= new Map();
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
    this.#total += count;
  }

  #sorted(): [bucket: number, count: number][] {
    return [...(this.#counts ?? [])].sort(([one], [other]) => one - other);
  }
}

/** `0` to `9`, `a` to `f` and `A` to `F` have the codes 48 to 57, 97 to 102 and 65 to 70. */
function digitAt(digits: string, at: number): number {
  const code = digits.charCodeAt(at);
  return code < 58 ? code - 48 : (code | 32) - 87;
}

function bucketOf(value: number): number {
  const within = Math.min(Math.max(value, SHORTEST), LONGEST);
  return Math.ceil(Math.log(within) / Math.log(GROWTH));
}

function middleOf(bucket: number): number {
  return (2 * GROWTH ** bucket) / (GROWTH + 1);
}

/** Seven bits a byte, the lowest first. */
function pushNumber(bytes: number[], number: number): void {
  let left = number;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  bytes.push(left);
}
