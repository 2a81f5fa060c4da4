import { describeExcess } from '../../child/contract.ts';
import { readJobName as readName } from '../../discovery/script.ts';
import type { RepeatRule } from '../../schedule/repeat/rule.ts';
import {
  parseDelayMs,
  type Reader,
  readDelayMs as readDelayOf,
  readDurationMs as readDurationOf,
  readRetryDelay,
} from '../../settings/readers.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import { isKey, KEY, LEAST_MS } from '../../store/words.ts';
import { ExactJson } from '../../system/base/exact-json.ts';
import { matchesNothing } from '../../system/base/glob.ts';
import { dayWords, readLocalTime } from '../../system/base/local-time.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { describeFound, lastInstantMs } from '../../system/base/values.ts';
import type { When } from '../api.ts';
import { QueueError } from '../errors.ts';
import { MOST_RETRIES } from '../settle/own-retry.ts';

/** @throws {QueueError} that says what is expected */
export function requireJobName(name: unknown): string {
  return readBy(readName, "A job's name", name, 'name');
}

/** As text; what is only passed on stays what it is. @throws {QueueError} if it is not JSON, or too much */
export function writeJson(field: JsonField, value: unknown): string {
  return checkJson(field, value instanceof ExactJson ? value.text : toJson(field, value));
}

type JsonField = 'data' | 'result';

/**
 * @param made how it came to be: `, merged,`
 * @throws {QueueError} if this JSON is more than a job may hold
 */
export function checkJson(field: JsonField, text: string, made = ''): string {
  const excess = describeExcess(text);
  if (excess === null) return text;
  throw new QueueError('invalid', `A job's ${field}${made} must be ${excess}.`, { field });
}

function toJson(field: JsonField, value: unknown): string {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch (error) {
    const why = (error as Error).message;
    throw new QueueError('invalid', `A job's ${field} cannot be written as JSON: ${why}.`, { field });
  }
  throw invalid(`A job's ${field}`, 'a value that JSON can hold', typeof value, field);
}

export function readPriority(priority: unknown, field = 'priority'): number {
  if (Number.isSafeInteger(priority)) return priority as number;
  throw invalid('A priority', 'a whole number such as 500', priority, field);
}

/** Characters of a reason that are kept: each row about the change has a copy. */
const LONGEST_REASON = 8 * 1024;

/** Null: a blank one, as of a variable that is not set, says nothing. */
export function readReason(reason: unknown = ''): string | null {
  if (typeof reason === 'string') return reason.trim() === '' ? null : reason.slice(0, LONGEST_REASON);
  throw invalid('The reason', 'text', reason, 'reason');
}

export function readRetries(retries: unknown): number {
  return readWhole('The number of retries', 0, MOST_RETRIES, retries, 'retries');
}

/** @throws {QueueError} unless it is a whole number of that range */
export function readWhole(what: string, least: number, most: number, found: unknown, field?: string): number {
  if (Number.isInteger(found) && Number(found) >= least && Number(found) <= most) return found as number;
  throw invalid(what, `a whole number from ${least} to ${most}`, found, field);
}

export function readDelay(delay: unknown) {
  return readBy(readRetryDelay, 'The retry delay', delay, 'retryDelay');
}

function requireDurationMs(what: string, text: unknown, field: string | null = null): number {
  return readBy(readDurationOf, what, text, field);
}

/** How long a pause or a mute lasts; undefined: until somebody ends it. */
export function readLengthMs(what: 'pause' | 'mute', text: unknown): number | undefined {
  return text === undefined ? undefined : requireDurationMs(`The length of the ${what}`, text, 'for');
}

/** It may be none: `0s`. */
export function requireDelayMs(what: string, text: unknown, field: string | null = null): number {
  return readBy(readDelayOf, what, text, field);
}

function readBy<T>(reader: Reader<T>, what: string, found: unknown, field: string | null): T {
  const reading = reader(found);
  if ('value' in reading) return reading.value;
  throw invalid(what, reading.expected, found, field);
}

export function readLeaseMs(text: unknown): number {
  return requireDurationMs('A lease', text, 'lease');
}

/** When a job is due: its number must not look like one of seconds to the log. 0, as an empty date, is long ago. */
export function readRunAt(when: When, nowMs: number): number {
  const ms = readWhen(when, nowMs);
  if (ms === 0 || ms >= LEAST_MS) return ms;
  throw invalid(
    'A time of a job',
    `${new Date(LEAST_MS).toISOString()} or later, or left out where the job is due now`,
    when,
    'runAt',
  );
}

/** Epoch milliseconds of a date, of a number of them, or of words. */
export function readWhen(when: When, nowMs: number, field = 'runAt'): number {
  if (typeof when === 'number' && Number.isInteger(when) && when > 0 && when < LEAST_MS) {
    throw invalid('A time', `milliseconds since 1970 such as ${when * 1000}, not seconds`, when, field);
  }
  const ms = typeof when === 'string' ? parseWhen(when.trim(), nowMs) : toMs(when);
  if (ms !== null && Number.isInteger(ms) && ms >= 0 && ms <= lastInstantMs) return ms;
  const expected = 'one such as +10 minutes, tomorrow 07:00, 2026-12-24 18:00 or 2026-12-24T18:00Z';
  const nearest = typeof when === 'string' ? nearestName(when.trim().split(' ')[0] ?? '', dayWords) : null;
  throw invalid('A time', nearest === null ? expected : `${expected} (did you mean ${nearest}?)`, when, field);
}

/** Callers in JavaScript give what they like: null would be 1970. */
function toMs(when: unknown): number | null {
  if (when instanceof Date) return when.getTime();
  return typeof when === 'number' ? when : null;
}

function parseWhen(text: string, nowMs: number): number | null {
  if (!text.startsWith('+')) return readLocalTime(text, nowMs, 'future')?.startMs ?? null;
  const delayMs = parseDelayMs(text.slice(1).trim());
  return delayMs === null ? null : nowMs + delayMs;
}

export function invalid(what: string, expected: string, found: unknown, field: string | null = null): QueueError {
  return new QueueError('invalid', `${what} must be ${expected}, found ${describeFound(found)}.`, { field });
}

/** @throws {QueueError} unless it is a whole number above 0 */
export function readId(what: string, expected: string, id: unknown, field: string | null = null): number {
  if (Number.isSafeInteger(id) && Number(id) > 0) return id as number;
  throw invalid(what, expected, id, field);
}

export function readKey(field: string, what: string, text: unknown): string {
  if (isKey(text)) return text;
  throw invalid(what, KEY, text, field);
}

export function readWord<Word extends string>(
  field: string,
  what: string,
  found: unknown,
  words: readonly Word[],
): Word {
  const word = words.find((each) => each === found);
  if (word !== undefined) return word;
  throw invalid(what, `one of ${words.join(', ')}`, found, field);
}

/** @param also what else may be given */
export async function readRule(text: unknown, also = ''): Promise<RepeatRule> {
  if (typeof text !== 'string' || text === '') {
    throw invalid('A repeat rule', `text such as SCHEDULED, +1 HOUR${also}`, text, 'repeat');
  }
  // The reader of rules is large, and most jobs have none.
  const { parseRepeat } = await import('../../schedule/repeat/grammar/parse.ts');
  const parsed = parseRepeat(text);
  if ('problem' in parsed) throw new QueueError('invalid', parsed.problem, { field: 'repeat' });
  const { rule } = parsed;
  const problem =
    rule.limits === undefined
      ? null
      : (await import('../../schedule/repeat/limits.ts')).describeDates('The repeat rule', rule);
  if (problem !== null) throw new QueueError('invalid', `${problem}.`, { field: 'repeat' });
  return rule;
}

/** It would wait for ever. */
export function refuseRepeatingChild({ id, parent_id }: Pick<JobHead, 'id' | 'parent_id'>): QueueError {
  const why = `Job ${id} is a child of job ${parent_id} and cannot repeat: that would wait for ever.`;
  return new QueueError('invalid', `${why} Let the parent repeat.`, { field: 'repeat' });
}

/**
 * A slip such as `prority` must not pass for a default, in JavaScript least of all.
 *
 * @param names the options that the verb takes
 * @throws {QueueError} that names the nearest option
 */
export function checkOptions<Options extends object>(
  verb: string,
  names: readonly string[],
  options: Options,
): Options {
  if (typeof options !== 'object' || options === null) throw noOptions(verb, names);
  const wrong = Object.keys(options).find((name) => !names.includes(name));
  if (wrong === undefined) return options;
  const nearest = nearestName(wrong, names);
  const taken = names.length === 0 ? 'no options' : names.join(', ');
  const hint = nearest === null ? `it takes ${taken}.` : `did you mean ${nearest}?`;
  const what = `\`${verb}\` has no option ${JSON.stringify(wrong)}; ${hint}`;
  throw new QueueError('invalid', what, { field: wrong });
}

export function noOptions(verb: string, names: readonly string[]): QueueError {
  return new QueueError('invalid', `The options of \`${verb}\` must be an object with ${names.join(', ')}.`);
}

/** One glob over names, or several: a name that matches any of them is meant. */
export type Patterns = string | readonly string[];

const LONGEST_PATTERN = 1_000;
const MOST_PATTERNS = 500;

/** @throws {QueueError} if the list is empty, or a pattern is not text */
export function readPatterns(patterns: Patterns): readonly string[] {
  const list: unknown = typeof patterns === 'string' ? [patterns] : patterns;
  const isList = Array.isArray(list) && list.length > 0 && list.length <= MOST_PATTERNS;
  if (!isList || !list.every(isPattern)) {
    throw invalid('A pattern', 'a name or a glob over names such as mail/*, or a list', patterns);
  }
  const open = list.find(matchesNothing);
  if (open === undefined) return list;
  throw invalid('A pattern', 'a glob with a ] for each [, and [[] for a [ itself', open);
}

function isPattern(pattern: unknown): pattern is string {
  return typeof pattern === 'string' && pattern !== '' && pattern.length <= LONGEST_PATTERN;
}
