import { describeFound } from '../config/describe-found.ts';
import { parseDurationMs } from '../config/duration.ts';
import { lastInstantMs } from '../config/instant.ts';
import { describeExcess } from '../config/job-json.ts';
import { readJobName as readName } from '../config/job-name.ts';
import {
  type Reader,
  readDelayMs as readDelayOf,
  readDurationMs as readDurationOf,
} from '../config/reading.ts';
import { readRetryDelay } from '../config/retry-delay.ts';
import type { When } from './queue.ts';
import { QueueError } from './queue-error.ts';

/** @throws {QueueError} that says what is expected */
export function readJobName(name: unknown): string {
  return readBy(readName, "A job's name", name);
}

/** As text. @throws {QueueError} if it is no JSON, or too much */
export function writeJson(what: string, value: unknown): string {
  return checkJson(what, toJson(what, value));
}

/** @throws {QueueError} if this JSON is more than a job may hold */
export function checkJson(what: string, text: string): string {
  const excess = describeExcess(text);
  if (excess === null) return text;
  throw new QueueError('invalid', `${what} expects ${excess}.`);
}

function toJson(what: string, value: unknown): string {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch (error) {
    throw new QueueError(
      'invalid',
      `${what} cannot be written as JSON: ${(error as Error).message}.`,
    );
  }
  throw invalid(what, 'what can be written as JSON', typeof value);
}

export function readPriority(priority: unknown): number {
  if (Number.isSafeInteger(priority)) return priority as number;
  throw invalid('A priority', 'a whole number such as 500', priority);
}

/** So much is kept of a reason: it stands in each row that tells of it. */
const LONGEST_REASON = 8 * 1024;

/** Null: a blank one, as of a variable that is not set, says nothing. */
export function readReason(reason: unknown): string | null {
  if (typeof reason === 'string')
    return reason.trim() === '' ? null : reason.slice(0, LONGEST_REASON);
  throw invalid('The reason', 'text', reason);
}

export function readRetries(retries: unknown): number {
  if (Number.isInteger(retries) && Number(retries) >= 0 && Number(retries) <= 100) {
    return retries as number;
  }
  throw invalid('The number of retries', 'a whole number from 0 to 100', retries);
}

export function readDelay(delay: unknown) {
  return readBy(readRetryDelay, 'The retry delay', delay);
}

export function readDurationMs(what: string, text: unknown): number {
  return readBy(readDurationOf, what, text);
}

/** It may be none: `0s`. */
export function readDelayMs(what: string, text: unknown): number {
  return readBy(readDelayOf, what, text);
}

function readBy<T>(reader: Reader<T>, what: string, found: unknown): T {
  const reading = reader(found);
  if ('value' in reading) return reading.value;
  throw invalid(what, reading.expected, found);
}

export function readLeaseMs(text: unknown): number {
  return readDurationMs('A lease', text);
}

/** Epoch milliseconds of a date, of a number of them, or of words. */
export function readWhen(when: When, nowMs: number): number {
  const ms = typeof when === 'string' ? parseWhen(when.trim(), nowMs) : toMs(when);
  if (ms !== null && Number.isInteger(ms) && ms >= 0 && ms <= lastInstantMs) return ms;
  throw invalid('A time', 'one such as +10 minutes, 2026-12-24 18:00 or 2026-12-24T18:00Z', when);
}

/** Callers in JavaScript give what they like: null would be 1970. */
function toMs(when: unknown): number | null {
  if (when instanceof Date) return when.getTime();
  return typeof when === 'number' ? when : null;
}

const localTime = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d))?)?$/;
const zonedTime = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:?\d\d)$/;

function parseWhen(text: string, nowMs: number): number | null {
  if (text === 'now') return nowMs;
  if (text.startsWith('+')) {
    const delayMs = parseDurationMs(text.slice(1).trim());
    return delayMs === null ? null : nowMs + delayMs;
  }
  const local = localTime.exec(text);
  if (local !== null) return parseLocal(local);
  return zonedTime.test(text) && isDay(text.slice(0, 10))
    ? Date.parse(text.replace(' ', 'T'))
    : null;
}

/** `Date.parse` takes 30 February for 2 March. */
function isDay(text: string): boolean {
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

/** In the zone of the host. Null: there is no such day, as 31 April. */
function parseLocal(found: RegExpExecArray): number | null {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found
    .slice(1)
    .map((each) => Number(each ?? 0));
  const date = new Date(year, month - 1, day, hour, minute, second);
  const isThere = isDay(found[0].slice(0, 10)) && hour < 24 && minute < 60 && second < 60;
  return isThere ? date.getTime() : null;
}

export function invalid(what: string, expected: string, found: unknown): QueueError {
  return new QueueError('invalid', `${what} expects ${expected}, found ${describeFound(found)}.`);
}
