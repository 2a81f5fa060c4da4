import type { JobRow } from '../schema.ts';
import type { ListedJobRow } from './job-columns.ts';

export interface FoundJobs {
  readonly rows: readonly ListedJobRow[];
  /** How many jobs were looked at. */
  readonly looked: number;
  /** The last one of these, from which a search goes on; null: there is no further one. */
  readonly last: number | null;
}

export interface JobSearch {
  /** Searched in data, result and reason as stored; A to Z match in either case. */
  readonly text: string;
  /** Most jobs to look at. */
  readonly most: number;
  /** Called from time to time; true: the search has taken long enough. */
  readonly isLate: () => boolean;
}

/** How many jobs are queried at once: for their sizes, and for the texts of the small ones. */
const JOBS_AT_ONCE = 200;

/** After this many bytes of text, which take a few milliseconds, the clock is read. */
const BYTES_AT_ONCE = 1_048_576;

/** A longer text is not searched: only plain SQL writes one, and it would have to be held in memory. */
const LONGEST_TEXT = 4 * 1_048_576;

const columns = ['data', 'result', 'reason'] as const;

/** Columns of a job that tell how much of it is to be looked through: `SizedJob`. */
export const sizeColumns = `id, ${columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ')} as bytes`;

/** Columns of a job that are looked through: `SearchedJob`. */
export const searchedColumns = `id, ${columns
  .map((column) => `case when octet_length(${column}) <= ${LONGEST_TEXT} then ${column} end as ${column}`)
  .join(', ')}`;

export interface SizedJob {
  readonly id: number;
  readonly bytes: number;
}

export type SearchedJob = Pick<JobRow, 'id' | (typeof columns)[number]>;

/**
 * Looks through jobs, part by part, for a text. The caller queries the log for each part, sizes first: a search by
 * `like` in the log takes time in proportion to the length of the text times the length of the needle.
 */
export class JobsSearch {
  readonly #ids: readonly number[];
  readonly #limit: number;
  readonly #wanted: JobSearch;
  readonly #needle: Buffer;
  readonly #found: number[] = [];
  #looked = 0;

  /** @param ids of all that are to be looked at, in this order */
  constructor(ids: readonly number[], limit: number, wanted: JobSearch) {
    this.#ids = ids;
    this.#limit = limit;
    this.#wanted = wanted;
    this.#needle = foldCase(wanted.text);
  }

  get isOver(): boolean {
    const isFull = this.#found.length >= this.#limit;
    return isFull || this.#looked === this.#ids.length || (this.#looked > 0 && this.#wanted.isLate());
  }

  /** Numbers of the next jobs. */
  next(): readonly number[] {
    return this.#ids.slice(this.#looked, this.#looked + JOBS_AT_ONCE);
  }

  /** Splits these jobs so that the text of no part takes long, unless it is a single one's. */
  *partsOf(next: readonly number[], sized: readonly SizedJob[]): Iterable<readonly number[]> {
    const sizes = new Map(sized.map(({ id, bytes }) => [id, Number(bytes)]));
    let part: number[] = [];
    let bytes = 0;
    for (const id of next) {
      const own = sizes.get(id) ?? 0;
      if (part.length > 0 && bytes + own > BYTES_AT_ONCE) {
        yield part;
        part = [];
        bytes = 0;
      }
      part.push(id);
      bytes += own;
    }
    if (part.length > 0) yield part;
  }

  look(part: readonly number[], jobs: readonly SearchedJob[]): void {
    const byId = new Map(jobs.map((job) => [job.id, job]));
    for (const id of part) {
      if (this.#found.length >= this.#limit) return;
      this.#looked += 1;
      const texts = columns.map((column) => byId.get(id)?.[column] ?? '');
      if (!texts.some((text) => foldCase(text).includes(this.#needle))) continue;
      this.#found.push(id);
    }
  }

  get found(): readonly number[] {
    return this.#found;
  }

  /** @param rows of the found ones, in any order */
  end(rows: readonly ListedJobRow[]): FoundJobs {
    const byId = new Map(rows.map((row) => [row.id, row]));
    const isWhole = this.#looked === this.#ids.length && this.#ids.length < this.#wanted.most;
    return {
      rows: this.#found.flatMap((id) => byId.get(id) ?? []),
      looked: this.#looked,
      last: isWhole ? null : (this.#ids[this.#looked - 1] ?? null),
    };
  }
}

/** The text's bytes, A to Z as a to z: other letters are only the same as themselves. */
function foldCase(text: string): Buffer {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte >= 65 && byte <= 90) bytes[at] = byte + 32;
  }
  return bytes;
}
