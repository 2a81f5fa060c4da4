import { readdirSync, readFileSync, statSync } from 'node:fs';
import { errorCode } from './errors.ts';

/** The last instant that a date can hold, in UTC epoch milliseconds. */
export const lastInstantMs = 8.64e15;

/** Longest time of a timer: with more, Node's `setTimeout` fires at once. */
export const longestTimerMs = 2 ** 31 - 1;

/** Whether a value is a valid instant: a row written by plain SQL may hold anything. */
export function isInstant(found: unknown): found is number {
  return typeof found === 'number' && Math.abs(found) <= lastInstantMs;
}

const LONGEST_SHOWN = 80;

/** A value from outside, as a message shows it. */
export function describeFound(found: unknown): string {
  const text = writeFound(found);
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

/** The value may be anything: a cycle or a BigInt has no JSON. */
function writeFound(found: unknown): string {
  if (typeof found === 'bigint') return `${found}n`;
  // JSON would show NaN as null.
  if (typeof found === 'number') return String(found);
  try {
    return JSON.stringify(found) ?? String(found);
  } catch {
    return 'a value that is not JSON';
  }
}

/** Whether a word is the number of a row, such as a run or a job. */
export function isRowNumber(word: string): boolean {
  return /^[1-9]\d{0,14}$/.test(word);
}

/** A path as one word of a shell command, for cures that can be pasted. */
export function shellWord(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

/** A command line that works in any folder: `cd /home/me/site && npx folder-runner show 20`. */
export function commandIn(root: string, words: string): string {
  return `cd ${shellWord(root)} && npx folder-runner ${words}`;
}

/** The address of a page of the dashboard: `https://example.org/runner/#/runs/20`. Null: nobody knows where that is. */
export function pageAt(
  dashboard: string | null,
  page: 'runs' | 'scripts' | 'incidents',
  item?: string | number,
): string | null {
  const name = item === undefined ? '' : `/${String(item).split('/').map(encodeURIComponent).join('/')}`;
  return dashboard === null ? null : `${dashboard}/#/${page}${name}`;
}

/** The order of run-parts (C collation): by the bytes of UTF-8. JavaScript's own order differs beyond U+FFFF. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** Control characters, and characters that turn the direction of text: they would garble logs and mails. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** The name with each unprintable character escaped as in JSON: `a\nb`. */
export function printableName(name: string): string {
  return name.replace(unprintable, (character) => {
    const text = JSON.stringify(character).slice(1, -1);
    return text === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : text;
  });
}

/** A time in UTC whose order as text is the order in time: 20261231-235959. */
export function utcStamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
}

/** The names in a folder; empty if there is no folder. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return [];
    throw error;
  }
}

/** @throws {Error} of the system for a path that cannot be read: its folder may be there all the same */
export function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** The text of a file; empty if it is missing or cannot be read. */
export function readIfThere(path: string, encoding: BufferEncoding = 'utf8'): string {
  try {
    return readFileSync(path, encoding);
  } catch {
    return '';
  }
}

/** Reads when it is first called, and gives the same value from then on. */
export function once<T>(read: () => T): () => T {
  let kept: { readonly value: T } | undefined;
  return () => {
    kept ??= { value: read() };
    return kept.value;
  };
}

/** Rows per statement: far below SQLite's limit of 32,766 values, however many columns a row has. */
const PAGE = 500;

/** Whole microseconds, as the log has durations, of milliseconds; null stays null. */
export function toMicros(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 1000);
}

/** The milliseconds of {@link toMicros}. */
export function toMillis(us: number | null): number | null {
  return us === null ? null : us / 1000;
}

/** Splits a list into pages that one statement can take, in order. */
export function* inPages<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += PAGE) yield all.slice(start, start + PAGE);
}

/**
 * Waits until all have ended, even if one fails: in a transaction nothing may still run while it is undone.
 *
 * @throws the first failure: a server refuses all statements after it without naming the cause
 */
export async function allEnded<const T extends readonly unknown[]>(
  asked: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const all = Promise.all(asked);
  all.catch(() => {});
  await Promise.allSettled(asked);
  return await all;
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
