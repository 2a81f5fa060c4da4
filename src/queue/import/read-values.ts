import { isUtf8 } from 'node:buffer';
import { MAX_JSON_BYTES } from '../../child/json-limits.ts';
import { QueueError } from '../queue-error.ts';
import type { Reading } from './imported-job.ts';

/** A column's text; '' for null. */
export function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}

/** Its characters. @throws {QueueError} when these bytes are no text */
export function readUtf8(what: string, bytes: unknown): string {
  if (bytes === null || bytes === undefined) return '';
  const content = Buffer.from(bytes as Uint8Array);
  if (isUtf8(content)) return content.toString('utf8');
  throw wrong(`${what} is no text in UTF-8`);
}

export function readWholeNumber(what: string, value: unknown): number {
  const text = textOf(value);
  const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number)) return number;
  throw wrong(`${what} is ${JSON.stringify(text)}, not a whole number`);
}

/** @throws {QueueError} when it is more than a job may have */
export function checkSize(json: string): string {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_JSON_BYTES) return json;
  throw wrong(`its data has ${bytes} bytes; a job's data is JSON of at most 1 MiB`);
}

/** Why a job cannot be taken over: the rest of a sentence that begins with its number. */
export function wrong(problem: string): QueueError {
  return new QueueError('invalid', problem);
}

/** What a row gives, or why it gives nothing. */
export function orBad(id: unknown, read: () => Reading): Reading {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return { id: textOf(id), problem: error.message.replace(/\.$/, '') };
  }
}
