import { parseDurationMs } from '../config/duration.ts';
import { readRetryDelay } from '../config/retry-delay.ts';
import type { When } from './queue.ts';
import { QueueError } from './queue-error.ts';

const LONGEST_NAME = 255;
const LARGEST_JSON_BYTES = 1024 * 1024;
/** SQLite takes nothing deeper for JSON. */
const DEEPEST_JSON = 1000;
/** The last instant that a date can hold. */
const LAST_INSTANT = 8.64e15;

/** @throws {QueueError} that says what is expected */
export function readJobName(name: unknown): string {
  const isName =
    typeof name === 'string' &&
    name.length <= LONGEST_NAME &&
    isHandlerPath(name) &&
    !hasControl(name);
  if (isName) return name as string;
  throw invalid("A job's name", "a handler's path such as mail/welcome, 1 to 255 characters", name);
}

function isHandlerPath(name: string): boolean {
  return name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

function hasControl(name: string): boolean {
  return /\p{Cc}|\p{Cs}/u.test(name);
}

/** As text. @throws {QueueError} if it is no JSON, or too much */
export function writeJson(what: string, value: unknown): string {
  return checkJson(what, toJson(what, value));
}

/** @throws {QueueError} if this JSON is more than a job may hold */
export function checkJson(what: string, text: string): string {
  checkSize(what, text);
  if (depthOf(text) <= DEEPEST_JSON) return text;
  throw new QueueError('invalid', `${what} expects JSON nested at most ${DEEPEST_JSON} deep.`);
}

/** @throws {QueueError} if it is more than a job may hold */
export function checkSize(what: string, text: string): string {
  const bytes = Buffer.byteLength(text);
  if (bytes <= LARGEST_JSON_BYTES) return text;
  throw new QueueError(
    'invalid',
    `${what} expects JSON of at most 1 MiB, found ${bytes} bytes; put what is large into a file and name that.`,
  );
}

/** Of JSON text. */
function depthOf(text: string): number {
  // Mostly it is too short to be looked through.
  if (text.length <= 2 * DEEPEST_JSON) return 0;
  let depth = 0;
  let deepest = 0;
  for (const [bracket] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[{]|[\]}]/g)) {
    if (bracket === '[' || bracket === '{') depth += 1;
    else if (bracket === ']' || bracket === '}') depth -= 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
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

export function readRetries(retries: unknown): number {
  if (Number.isInteger(retries) && Number(retries) >= 0 && Number(retries) <= 100) {
    return retries as number;
  }
  throw invalid('The retries', 'a whole number from 0 to 100', retries);
}

export function readDelay(delay: unknown) {
  const reading = readRetryDelay(delay);
  if ('value' in reading) return reading.value;
  throw invalid('The retry delay', reading.expected, delay);
}

export function readDurationMs(what: string, text: unknown): number {
  const durationMs = typeof text === 'string' ? parseDurationMs(text.trim()) : null;
  if (durationMs !== null) return durationMs;
  throw invalid(what, 'a duration such as 30s, 10m or 2h', text);
}

export function readLeaseMs(text: unknown): number {
  return readDurationMs('A lease', text);
}

/** Epoch milliseconds of a date, of a number of them, or of words. */
export function readWhen(when: When, nowMs: number): number {
  const ms = typeof when === 'string' ? parseWhen(when.trim(), nowMs) : toMs(when);
  if (ms !== null && Number.isInteger(ms) && ms >= 0 && ms <= LAST_INSTANT) return ms;
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

export function describeFound(found: unknown): string {
  if (typeof found === 'bigint') return `${found}n`;
  const text = JSON.stringify(found) ?? String(found);
  return text.length <= 80 ? text : `${text.slice(0, 80)}…`;
}
