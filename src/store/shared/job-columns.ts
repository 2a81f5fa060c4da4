import { columnsOf } from '../columns.ts';
import type { JobRow } from '../schema.ts';
import { tables } from '../tables.ts';

/** A job without what it carries: that may be megabytes, and few who look at a job want it. */
export type JobHead = Omit<JobRow, 'data' | 'result'>;

/** The same with the length of what it carries, in bytes. */
export interface SizedJobRow extends JobHead {
  readonly data_bytes: number;
  /** Null: it has no result. */
  readonly result_bytes: number | null;
}

/** A job as a list has it. */
export interface ListedJobRow extends SizedJobRow {
  /** Null: it is too long for a list. */
  readonly data: string | null;
  /** The same, or there is none. */
  readonly result: string | null;
}

/** All columns of a job but what it carries: tables may have more, which are only indexed. */
const headColumns = columnsOf(tables.jobs, ['data', 'result']);

/** Longest value, in bytes, that a list gives whole. */
export const MOST_LISTED_BYTES = 4_096;

/** Longest other text of a job, in bytes, that a list gives whole: only plain SQL writes a longer one. */
const MOST_TEXT_BYTES = 8_192;
const CUT_CHARACTERS = 1_000;

/** Texts that plain SQL can make as long as it likes. */
const texts: ReadonlySet<string> = new Set(['retry', 'repeat', 'unique_key', 'concurrency_key', 'reason']);

const of = (column: string): string => `jobs."${column}"`;
const bytesOf = (column: string): string => `octet_length(${of(column)})`;

/** A job without what it carries: `JobHead`. */
export const headOfJob = headColumns.map(of).join(', ');

const sizesOfJob = `${bytesOf('data')} as data_bytes, ${bytesOf('result')} as result_bytes`;

/** The same with the length of what it carries: `SizedJobRow`. No engine reads a text to tell its length. */
export const sizedJob = `${headOfJob}, ${sizesOfJob}`;

const cut = (column: string): string =>
  `case when ${bytesOf(column)} > ${MOST_TEXT_BYTES}
    then substr(${of(column)}, 1, ${CUT_CHARACTERS}) || '…' else ${of(column)} end as "${column}"`;

const orNothing = (column: string): string =>
  `case when ${bytesOf(column)} <= ${MOST_LISTED_BYTES} then ${of(column)} end as "${column}"`;

/** A job as a list has it: `ListedJobRow`. */
export const listedJob = [
  ...headColumns.map((column) => (texts.has(column) ? cut(column) : of(column))),
  ...['data', 'result'].map(orNothing),
  sizesOfJob,
].join(', ');
