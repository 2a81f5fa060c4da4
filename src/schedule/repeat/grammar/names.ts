import { DAY_MS } from '../../../system/base/values.ts';

/** Monday first; its number is 1. */
export const weekdays = 'monday tuesday wednesday thursday friday saturday sunday'.split(' ');

export const months = 'january february march april may june july august september october november december'.split(
  ' ',
);

export const ordinals = ['first', 'second', 'third', 'fourth'];

/** `second`, `5th`; -1 is `last`, and -2 `second last`. */
export function writeOrdinal(nth: number): string {
  if (nth < 0) return nth === -1 ? 'last' : `${writeOrdinal(-nth)} last`;
  const suffix = nth === 11 || nth === 12 || nth === 13 ? undefined : ['st', 'nd', 'rd'][(nth % 10) - 1];
  return ordinals[nth - 1] ?? `${nth}${suffix ?? 'th'}`;
}

/** The 1-based index of a name; its first three letters are enough. */
export function findName(names: readonly string[], word: string): number | null {
  const index = word.length < 3 ? -1 : names.findIndex((name) => name.startsWith(word));
  return index === -1 ? null : index + 1;
}

/** A date as people write it. */
export interface WrittenDate {
  /** Counted from 1970-01-01; of a date without a year, that in the leap year `LEAP_YEAR`. */
  readonly day: number;
  readonly isYearly: boolean;
}

export const LEAP_YEAR = 2000;

const dateForm = /^(?:(?:(\d{4})-)?(\d\d)-(\d\d)|(\d{1,2})(?:st|nd|rd|th)? ([a-z]+)(?: (\d{4}))?)$/i;

/** Reads `2026-12-25`, `25 december 2026`, and `12-25` or `25 december` for each year; null: none of them. */
export function parseDate(text: string): WrittenDate | null {
  const [, isoYear, isoMonth, isoDay, number, name, lastYear] = dateForm.exec(text) ?? [];
  const [year, date] = [isoYear ?? lastYear, Number(isoDay ?? number)];
  const month = name === undefined ? Number(isoMonth) : (findName(months, name.toLowerCase()) ?? 0);
  const at = new Date(0);
  at.setUTCFullYear(Number(year ?? LEAP_YEAR), month - 1, date);
  // `Date` reads February 30th as March 1st.
  const isDate = at.getUTCMonth() === month - 1 && at.getUTCDate() === date;
  return isDate ? { day: at.getTime() / DAY_MS, isYearly: year === undefined } : null;
}
