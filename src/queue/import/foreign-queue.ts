import { isUtf8 } from 'node:buffer';
import { MAX_JSON_BYTES } from '../../child/contract.ts';
import { parseInstant } from '../../schedule/repeat/rule.ts';
import type { NewJobRow } from '../../store/statements/jobs.ts';
import type { MissedPolicy } from '../../store/words.ts';
import { QueueError } from '../errors.ts';

/** The queue of another system; it can be read any number of times. */
export interface ForeignQueue {
  /** `Bedrock`, `LaterJob`. */
  readonly system: string;
  readonly table: string;
  /** Notes about the file as a whole. */
  readonly notes: readonly string[];
  /**
   * Each job, parents before children, otherwise in the order in which they were added.
   *
   * @param bad numbers of the jobs that are known so far to be impossible to import
   */
  read(bad: ReadonlySet<string>): Iterable<ForeignJob>;
}

/** A row of the foreign queue, and its fate. */
export type ForeignJob = GoodJob | BadJob | LeftOutJob;

/** A job that can be imported. */
export interface GoodJob {
  /** Its number in the foreign queue. */
  readonly id: string;
  /** Distinguishes it from every other job of any file; the same in a copy, and when it has changed. */
  readonly key: string;
  /** The number of its parent. */
  readonly parent: string | null;
  /** Its parent was imported before, or comes before it. */
  readonly parentKey: string | null;
  /** Whether another job names it as its parent. */
  readonly isParent: boolean;
  /** Notes about the import of this job; jobs of one kind have the same words. */
  readonly notes: readonly string[];
  readonly row: Omit<NewJobRow, 'unique_key' | 'concurrency_key' | 'parent_id' | 'on_child_failure'>;
}

/** A job that cannot be imported. */
export interface BadJob {
  readonly id: string;
  readonly problem: string;
}

/** A job that is left out on purpose. */
interface LeftOutJob {
  readonly leftOut: 'ended' | 'mocked';
}

/** The caller's options. */
export interface ImportOptions {
  /** The table; default: the table that the system makes. */
  readonly table?: string;
  /** Whether to import ended jobs as well. Ended children that a parent must still learn of are always imported. */
  readonly withEnded: boolean;
  /** The policy of repeating jobs for missed times. */
  readonly missed: MissedPolicy;
  /** The name for LaterJob's jobs, which have none. Default: the table's name. */
  readonly name?: string;
  /** The time zone of LaterJob's times. Default: UTC. */
  readonly timeZone?: string;
}

/** Reads a row's job, or says why it cannot be imported. */
export function orBad(id: unknown, read: () => ForeignJob): ForeignJob {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return { id: textOf(id), problem: error.message.replace(/\.$/, '') };
  }
}

/** Why a job cannot be imported: the rest of a sentence that begins with its number. */
export function invalidJob(problem: string): QueueError {
  return new QueueError('invalid', problem);
}

/** A column's text; '' for null. */
export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}

/** The characters of a column. @throws {QueueError} if the bytes are not text */
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

/** @throws {QueueError} if the JSON is larger than a job may have */
export function checkSize(json: string): string {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_JSON_BYTES) return json;
  throw invalidJob(`its data has ${bytes} bytes; a job's data is JSON of at most 1 MiB`);
}

/** Epoch milliseconds for the time that a clock shows; `wallMs` is that time read as UTC. */
export type ClockReader = (wallMs: number) => number;

export const readUtcClock: ClockReader = (wallMs) => wallMs;

/** Reads `2026-07-31 13:00:00` or `2026-07-31`; null if the column is empty. @throws {QueueError} */
export function readTime(what: string, value: unknown, readClock: ClockReader): number | null {
  const text = textOf(value).trim();
  if (text === '') return null;
  const wallMs = parseInstant(text);
  if (wallMs !== null && wallMs >= 0) return readClock(wallMs);
  throw invalidJob(`its ${what} is ${JSON.stringify(text)}, expected such as 2026-12-24 18:00:00`);
}

/** @throws {QueueError} also if the column is empty */
export function readNeededTime(what: string, value: unknown, readClock: ClockReader): number {
  const at = readTime(what, value, readClock);
  if (at === null) throw invalidJob(`it has no ${what}`);
  return at;
}
