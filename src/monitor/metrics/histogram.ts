/** By how much a quantile is off at most. */
export const RELATIVE_ERROR = 0.01;

const GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);

/** In milliseconds: whatever is shorter or longer counts as that. */
const SHORTEST = 0.001;
const LONGEST = 1e12;

const LOWEST = bucketOf(SHORTEST);
const HIGHEST = bucketOf(LONGEST);

/**
 * How values are distributed, in few bytes: how many lie in each bucket, where the buckets grow by 2 % each, so that
 * any quantile is told with an error of at most 1 %. Those of several hours add up to the same as if all values had
 * been in one: DDSketch (https://www.vldb.org/pvldb/vol12/p2195-masson.pdf).
 */
export class Histogram {
  readonly #counts = new Map<number, number>();
  #total = 0;

  /** How many values are in it. */
  get total(): number {
    return this.#total;
  }

  add(value: number): void {
    this.#count(bucketOf(value), 1);
  }

  merge(other: Histogram): void {
    for (const [bucket, count] of other.#counts) this.#count(bucket, count);
  }

  /** The value that this share of all does not exceed, `0.95` for p95; null where there are none. */
  quantile(share: number): number | null {
    if (this.#total === 0) return null;
    let left = Math.max(1, Math.ceil(share * this.#total));
    for (const [bucket, count] of this.#sorted()) {
      left -= count;
      if (left <= 0) return middleOf(bucket);
    }
    return null;
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

  /** Bytes that are none of its own are hostile input: of them it takes what it can read. */
  static decode(bytes: Uint8Array | null): Histogram {
    const histogram = new Histogram();
    const numbers = readNumbers(bytes ?? new Uint8Array());
    let bucket = LOWEST;
    for (let index = 0; index + 1 < numbers.length; index += 2) {
      bucket += numbers[index] as number;
      histogram.#count(Math.min(bucket, HIGHEST), numbers[index + 1] as number);
    }
    return histogram;
  }

  #count(bucket: number, count: number): void {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
    this.#total += count;
  }

  #sorted(): [bucket: number, count: number][] {
    return [...this.#counts].sort(([one], [other]) => one - other);
  }
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

function readNumbers(bytes: Uint8Array): number[] {
  const numbers: number[] = [];
  let number = 0;
  let place = 1;
  for (const byte of bytes) {
    number += (byte % 128) * place;
    place *= 128;
    if (byte >= 128) continue;
    numbers.push(number);
    number = 0;
    place = 1;
  }
  return numbers;
}
