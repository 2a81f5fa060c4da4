import { isUtf8 } from 'node:buffer';
import { MAX_JSON_BYTES } from '../child/contract.ts';
import type { ImportedJob } from '../queue/add/imported.ts';
import { QueueError } from '../queue/errors.ts';
import { parseInstant } from '../repeat/time.ts';
import type { MissedPolicy } from '../store/schema.ts';

/** The queue of another system, to be read as often as one likes. */
export interface ForeignQueue {
  /** `Bedrock`, `LaterJob`. */
  readonly system: string;
  readonly table: string;
  /** What is to be known of the file as a whole. */
  readonly notes: readonly string[];
  /**
   * Each job, parents before children, else in the order in which they were added.
   *
   * @param bad numbers of jobs that cannot be taken over, as far as that is known
   */
  read(bad: ReadonlySet<string>): Iterable<ForeignJob>;
}

/** A row of the queue, and what becomes of it. */
export type ForeignJob = GoodJob | BadJob | LeftOutJob;

export interface GoodJob extends ImportedJob {
  /** Its number there. */
  readonly id: string;
  /** That of its parent. */
  readonly parent: string | null;
  /** What somebody should know of how it was taken over; the same words for each job alike. */
  readonly notes: readonly string[];
}

/** It cannot be taken over. */
export interface BadJob {
  readonly id: string;
  readonly problem: string;
}

/** It is not taken over on purpose. */
export interface LeftOutJob {
  readonly leftOut: 'ended' | 'mocked';
}

/** What the caller wants. */
export interface ImportOptions {
  /** The table; default: the one that the system makes. */
  readonly table?: string;
  /** Ended jobs as well. Those that a parent is still to be told of are always taken over. */
  readonly withEnded: boolean;
  /** Of repeating jobs. */
  readonly missed: MissedPolicy;
  /** Of LaterJob's jobs, which have none. Default: the table's. */
  readonly name?: string;
  /** In which LaterJob's times are told. Default: UTC. */
  readonly timeZone?: string;
}

/** What a row gives, or why it gives nothing. */
export function orBad(id: unknown, read: () => ForeignJob): ForeignJob {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return { id: textOf(id), problem: error.message.replace(/\.$/, '') };
  }
}

/** Why a job cannot be taken over: the rest of a sentence that begins with its number. */
export function invalidJob(problem: string): QueueError {
  return new QueueError('invalid', problem);
}

/** A column's text; '' for null. */
export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}

/** The characters of a column. @throws {QueueError} when these bytes are no text */
export function readUtf8(what: string, bytes: unknown): string {
  if (bytes === null || bytes === undefined) return '';
  const content = Buffer.from(bytes as Uint8Array);
  if (isUtf8(content)) return content.toString('utf8');
  throw invalidJob(`${what} is not UTF-8 text`);
}

/** @throws {QueueError} */
export function readForeignNumber(what: string, value: unknown): number {
  const text = textOf(value);
  const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number)) return number;
  throw invalidJob(`${what} is ${JSON.stringify(text)}, not a whole number`);
}

/** @throws {QueueError} when it is more than a job may have */
export function checkSize(json: string): string {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_JSON_BYTES) return json;
  throw invalidJob(`its data has ${bytes} bytes; a job's data is JSON of at most 1 MiB`);
}

/** Epoch milliseconds of what a clock shows, which is given as if it were one of UTC. */
export type ClockReader = (wallMs: number) => number;

export const readUtcClock: ClockReader = (wallMs) => wallMs;

/** Of `2026-07-31 13:00:00`, `2026-07-31`; null where there is none. @throws {QueueError} */
export function readTime(what: string, value: unknown, readClock: ClockReader): number | null {
  const text = textOf(value).trim();
  if (text === '') return null;
  const wallMs = parseInstant(text);
  if (wallMs !== null && wallMs >= 0) return readClock(wallMs);
  throw invalidJob(`its ${what} is ${JSON.stringify(text)}, expected such as 2026-12-24 18:00:00`);
}

/** @throws {QueueError} also where there is none */
export function readNeededTime(what: string, value: unknown, readClock: ClockReader): number {
  const at = readTime(what, value, readClock);
  if (at === null) throw invalidJob(`it has no ${what}`);
  return at;
}
