import type { CalendarDay } from './repeat-rule.ts';
import { quote } from './rule-problem.ts';

export type ParsedDay = { readonly on: CalendarDay } | { readonly fault: string };

/** From Monday, which is 1. */
export const weekdays = [
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
  'sunday',
] as const;

export const months = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
] as const;

/** The days of each month, February's in a leap year. */
const longest = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

/** `daily`, `weekly on monday`, `monthly on 31`, `monthly on last`, `yearly on 14 february`. */
export function parseCalendarDay(words: string): ParsedDay {
  const [, period = '', on = ''] = /^(\w+)(?: on (.*))?$/.exec(words) ?? /^(\w+)/.exec(words) ?? [];
  if (period === 'weekly') return parseWeekly(on);
  if (period === 'monthly') return parseMonthly(on);
  if (period === 'yearly') return parseYearly(on);
  return words === 'daily'
    ? { on: { period: 'daily' } }
    : { fault: 'daily expects a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin' };
}

function parseWeekly(on: string): ParsedDay {
  const weekday = findName(weekdays, on);
  if (weekday !== null) return { on: { period: 'weekly', weekday } };
  return { fault: `weekly expects a day such as weekly on monday at 01:00${found(on)}` };
}

function parseMonthly(on: string): ParsedDay {
  const day = on === 'last' ? 31 : readDay(on, 31);
  if (day !== null) return { on: { period: 'monthly', day } };
  const example = 'such as monthly on 1 at 00:00';
  return { fault: `monthly expects a day from 1 to 31 or last, ${example}${found(on)}` };
}

function parseYearly(on: string): ParsedDay {
  const [, dayWord = '', name = ''] = /^(\S+) (\S+)$/.exec(on) ?? [];
  const month = findName(months, name);
  const day = month === null ? null : readDay(dayWord, longest[month - 1] ?? 0);
  if (month !== null && day !== null) return { on: { period: 'yearly', month, day } };
  return { fault: `yearly expects a date such as yearly on 14 february at 20:00${found(on)}` };
}

function readDay(word: string, last: number): number | null {
  const day = /^\d{1,2}$/.test(word) ? Number(word) : 0;
  return day >= 1 && day <= last ? day : null;
}

/** Also by its first three letters or more. */
function findName(names: readonly string[], word: string): number | null {
  const index = word.length < 3 ? -1 : names.findIndex((name) => name.startsWith(word));
  return index === -1 ? null : index + 1;
}

function found(on: string): string {
  return on === '' ? '' : `, found ${quote(on)}`;
}
