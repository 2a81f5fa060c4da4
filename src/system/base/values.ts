import { readdirSync } from 'node:fs';
import { errorCode } from './errors.ts';

/** The last instant that a date can hold, in UTC epoch milliseconds. */
export const lastInstantMs = 8.64e15;

/** Whether a date can be made of it: a row that plain SQL has written may hold anything. */
export function isInstant(found: unknown): found is number {
  return typeof found === 'number' && Math.abs(found) <= lastInstantMs;
}

const LONGEST_SHOWN = 80;

/** A value that somebody gave, as a sentence shows it. */
export function describeFound(found: unknown): string {
  const text = writeFound(found);
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

/** Anything can be given: what holds a circle or a BigInt is no JSON. */
function writeFound(found: unknown): string {
  if (typeof found === 'bigint') return `${found}n`;
  // JSON has no NaN: it would be shown as null.
  if (typeof found === 'number') return String(found);
  try {
    return JSON.stringify(found) ?? String(found);
  } catch {
    return 'a value that is not JSON';
  }
}

/** A path as one word of a shell command, for cures that can be pasted. */
export function shellWord(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

/** A line that works wherever it is pasted: `cd /home/me/site && npx folder-runner show 20`. */
export function commandIn(root: string, words: string): string {
  return `cd ${shellWord(root)} && npx folder-runner ${words}`;
}

/** C collation, as run-parts sorts: by the bytes of UTF-8. JavaScript's own order differs beyond U+FFFF. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** Control characters, and those that turn the direction of text: they would garble logs and mails. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** The name with each unprintable character written as JSON does: `a\nb`. */
export function printableName(name: string): string {
  return name.replace(unprintable, (character) => {
    const text = JSON.stringify(character).slice(1, -1);
    return text === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : text;
  });
}

/** UTC, so that the order of the names is the order in time: 20261231-235959. */
export function utcStamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
}

/** What is in a folder; nothing where there is no folder. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return [];
    throw error;
  }
}

/** Far fewer than one statement of SQLite takes values (32,766), however many columns a row has. */
const PAGE = 500;

/** In their order, so many at a time as one statement may name. */
export function* inPages<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += PAGE) yield all.slice(start, start + PAGE);
}

/**
 * Waits for all, even where one of them fails: in a transaction nothing may go on behind the back of whoever undoes it.
 *
 * @throws what failed first: a server refuses whatever follows it, and says nothing of the cause
 */
export async function allEnded<const T extends readonly unknown[]>(
  asked: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const all = Promise.all(asked);
  all.catch(() => {});
  await Promise.allSettled(asked);
  return await all;
}
