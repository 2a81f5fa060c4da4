import { type BigIntStats, realpathSync, statSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { errorCode } from '../../system/base/errors.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { DAY_MS } from '../../system/base/values.ts';
import { faultOf, judgePath } from '../../system/place/trust.ts';
import { quote } from './grammar/fault.ts';
import { LEAP_YEAR, parseDate } from './grammar/names.ts';

/** The dates of a file. Days are counted from 1970-01-01. */
export interface Dates {
  has(day: number): boolean;
  /** The last date; null: the file has dates of each year, which never end. */
  readonly last: number | null;
}

/** It begins with the file's name, and has no full stop. */
export interface DatesProblem {
  readonly problem: string;
}

const MOST_BYTES = 64 * 1024;

/** Files as they were read last, by path. */
const known = new Map<string, { readonly version: string; readonly dates: Dates }>();

/** Within this time, in milliseconds, a second change of a file may leave its times as they are. */
const SAME_TICK_MS = 2000;

/** Reads a file of dates, if it is not as it was read before; `file` is a path from the root. */
export function readDates(root: string, file: string, allowUnsafe: boolean): Dates | DatesProblem {
  const path = resolve(root, file);
  try {
    const stats = statSync(path, { bigint: true });
    const { dev, ino, size, ctimeNs, ctimeMs } = stats;
    // The time of a change tells also of another mode or owner.
    const version = [root, allowUnsafe, dev, ino, size, ctimeNs].join();
    const before = known.get(path);
    if (before?.version === version) return before.dates;
    const dates = readTrusted({ root, file, path, allowUnsafe }, stats);
    if ('has' in dates && Date.now() - Number(ctimeMs) > SAME_TICK_MS) known.set(path, { version, dates });
    return dates;
  } catch (error) {
    const hint = `write it with a date such as 2026-12-25 in each line`;
    if (errorCode(error) === 'ENOENT') return { problem: `${file} does not exist in ${root}: ${hint}` };
    return { problem: `${file} cannot be read: ${(error as Error).message}` };
  }
}

interface Place {
  readonly root: string;
  readonly file: string;
  readonly path: string;
  readonly allowUnsafe: boolean;
}

function readTrusted({ root, file, path, allowUnsafe }: Place, stats: BigIntStats): Dates | DatesProblem {
  const real = relative(realpathSync(root), realpathSync(path));
  if (/^(?:\.\.)?(?:\/|$)/.test(real)) return { problem: `${file} is not in the root ${root}` };
  const [distrust] = allowUnsafe ? [] : judgePath(root, path);
  if (distrust !== undefined) {
    const { found, cure } = faultOf(root, distrust);
    return { problem: `${found}: ${cure}` };
  }
  if (!stats.isFile()) {
    return { problem: `${file} is a ${stats.isDirectory() ? 'folder' : 'special file'}, not a file of dates` };
  }
  if (stats.size <= MOST_BYTES) return parseDates(file, readPlainFile(path));
  return { problem: `${file} has ${stats.size} bytes; a file of dates has at most ${MOST_BYTES}` };
}

function parseDates(file: string, source: string): Dates | DatesProblem {
  const days = new Set<number>();
  const yearly = new Set<number>();
  for (const [index, line] of source
    .replace(/^\ufeff/, '')
    .split(/\r\n?|\n/)
    .entries()) {
    const text = line.trim();
    // The first line of a table names its columns.
    if (text === '' || text.startsWith('#') || (index === 0 && /^[^\d]+[,;]/.test(text))) continue;
    const read = readLine(text);
    if ('fault' in read) return { problem: `${file}:${index + 1}: ${read.fault}` };
    for (const day of read.days) (read.isYearly ? yearly : days).add(day);
  }
  if (days.size + yearly.size === 0)
    return { problem: `${file} has no date: write one such as 2026-12-25 in each line` };
  if (yearly.size === DAYS_OF_LEAP_YEAR) return { problem: `${file} has every day of each year` };
  return {
    has: (day) => days.has(day) || (yearly.size > 0 && yearly.has(inLeapYear(day))),
    last: yearly.size > 0 ? null : [...days].reduce((last, day) => Math.max(last, day)),
  };
}

const DAYS_OF_LEAP_YEAR = 366;

function inLeapYear(day: number): number {
  return new Date(day * DAY_MS).setUTCFullYear(LEAP_YEAR) / DAY_MS;
}

const date = String.raw`"?(\d{1,2}(?:st|nd|rd|th)? [a-z]+(?: \d{4})?|\d[\d-]*)"?(?![\w-])`;
const rangeForm = new RegExp(String.raw`^${date}\s*(?:to|until|\.\.|[-–—])\s*${date}(?![^\s,;#])`, 'i');
const lineForm = new RegExp(String.raw`^${date}(?!\s*(?:to|until|\.\.|[-–—])\s*"?\d)(?![^\s,;#])`, 'i');

/** The days of `2026-12-24 to 2026-12-31`, `12-25`, `"2026-12-25","Christmas"`. */
function readLine(text: string): { readonly days: readonly number[]; readonly isYearly: boolean } | { fault: string } {
  const expected = 'a date such as 2026-12-25, 12-25 or 25 december, or 2026-12-24 to 2026-12-31';
  const [, firstWord, lastWord = firstWord] = rangeForm.exec(text) ?? lineForm.exec(text) ?? [];
  const [first, last] = [firstWord, lastWord].map((word) => (word === undefined ? null : parseDate(word)));
  if (first == null || last == null) return { fault: `${quote(text)} must begin with ${expected}` };
  const { isYearly } = first;
  if (isYearly !== last.isYearly) return { fault: `both dates of ${quote(text)} need a year, or neither does` };
  // The days of `12-24 to 01-06` go over the end of the year.
  const span = last.day - first.day + (isYearly && last.day < first.day ? DAYS_OF_LEAP_YEAR : 0);
  if (span < 0) return { fault: `the range ${quote(text)} ends before it begins` };
  if (span > DAYS_OF_LEAP_YEAR) return { fault: `the range ${quote(text)} is longer than a year` };
  const all = Array.from({ length: span + 1 }, (_, index) => first.day + index);
  return { days: isYearly ? all.map(inLeapYear) : all, isYearly };
}
