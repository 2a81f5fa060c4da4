import { nearestName } from '../../../system/base/suggest.ts';
import { DAY_MS } from '../../../system/base/values.ts';
import type { CalendarDay, DayKind, Rhythm, RuleDays } from '../rule.ts';
import { type RuleFault, writeFound } from './fault.ts';
import { findName, months, ordinals, parseDate, weekdays, writeOrdinal } from './names.ts';

export const dailyExpected = 'daily needs a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin';

/** Reads the words before a time: `daily`, `weekly on monday`, `every 2 weeks from 2026-11-30`. */
export function parseDays(words: string): RuleDays | RuleFault {
  if (words.startsWith('every ')) return parseRhythm(words);
  const on = parseOn(words);
  return 'fault' in on ? on : { on };
}

const rhythmForm = /^(every (?:([1-9]\d{0,2}) )?(day|week|month|year)s?) from (.+?)(?: on (.+))?$/;

/** `every 2 weeks from 2026-11-30 on monday and friday` */
function parseRhythm(words: string): RuleDays | RuleFault {
  const [, every, number = '1', named, dateWords = '', on] = rhythmForm.exec(words) ?? [];
  const date = parseDate(dateWords);
  if (date === null || date.isYearly) {
    const what = every === undefined ? 'every needs a number from 1 to 999 and' : `${every} needs`;
    return { fault: `${what} a date such as from 2026-11-30${writeFound(dateWords)}` };
  }
  const { day: from } = date;
  const first = new Date(from * DAY_MS);
  const days = {
    day: () =>
      on === undefined ? ({ period: 'daily' } as const) : { fault: `${every} has no days: leave out on ${on}` },
    week: () => parseWeekly(on ?? (weekdays[(first.getUTCDay() + 6) % 7] as string)),
    month: () => parseMonthly(on ?? String(first.getUTCDate())),
  };
  const [unit, count] =
    named === 'year' ? (['month', 12 * Number(number)] as const) : [named as Rhythm['unit'], Number(number)];
  const read = days[unit]();
  return 'fault' in read ? read : { on: read, rhythm: { unit, count, from } };
}

/** `daily`, `weekdays`, `weekly on monday`, `on day 1 and 15`, `monthly on the last friday`, `yearly on 14 february`. */
function parseOn(words: string): CalendarDay | RuleFault {
  const [, period = '', on = ''] = /^(\w+)(?: on (.*))?$/.exec(words) ?? /^(on)\b ?(.*)$/.exec(words) ?? [];
  const [start = ''] = words.split(' ');
  if (start === 'weekly') return parseWeekly(on);
  if (start === 'monthly') return parseMonthly(on);
  if (start === 'yearly') return parseYearly(on);
  if (period === 'on') return parseOnDay(on);
  if (words === 'daily') return { period: 'daily' };
  if (words === 'weekdays') return { period: 'weekly', weekdays: [1, 2, 3, 4, 5] };
  if (words === 'weekends') return { period: 'weekly', weekdays: [6, 7] };
  if (start === 'daily') return { fault: dailyExpected };
  return { fault: `${start} needs a time, such as ${start} at 08:00 or ${start} every 15min from 09:00 to 17:00` };
}

function parseWeekly(on: string): CalendarDay | RuleFault {
  const read = readList(on, readWeekdays);
  if ('numbers' in read) return { period: 'weekly', weekdays: read.numbers };
  return { fault: `weekly needs a day such as weekly on monday at 01:00${writeFound(read.wrong, weekdays)}` };
}

function parseMonthly(on: string): CalendarDay | RuleFault {
  const [, nthWords = '', name = ''] = /^(?:the )?(.+?) ((?:working|business) days?|[a-z]+)$/.exec(on) ?? [];
  const nth = readList(nthWords, readOrdinal);
  if ('numbers' in nth) return parseNth(nth.numbers, name, nthWords);
  const expected = 'monthly needs a day such as 1, last, the last friday, the second tuesday or the 3rd working day';
  if (readKind(name) !== null) return { fault: `${expected}${writeFound(nth.wrong, [...ordinals, 'last'])}` };
  const read = readDays(on.replace(/^(?:the |day )/, ''));
  if ('numbers' in read) return { period: 'monthly', days: read.numbers };
  return { fault: `monthly needs a day from 1 to 31 or last, such as monthly on 1 at 00:00${writeFound(read.wrong)}` };
}

/** The fewest Fridays, working days or days that a month has. */
function countOf(kind: DayKind): number {
  if (kind === 'day') return 28;
  return kind === 'working day' ? 20 : 4;
}

/** `first and third friday`, `last working day`, `second last day`. */
function parseNth(nth: readonly number[], name: string, words: string): CalendarDay | RuleFault {
  const kind = readKind(name);
  if (kind === null) {
    const expected = 'monthly needs the name of a day, such as monthly on the last friday at 18:00';
    return { fault: `${expected}${writeFound(name, [...weekdays, 'day', 'working day'])}` };
  }
  const most = countOf(kind);
  if (nth.every((each) => Math.abs(each) <= most)) return { period: 'monthly', nth, kind };
  return { fault: `not every month has the ${words} ${name}: at most the ${writeOrdinal(most)}, or the last` };
}

function readKind(name: string): DayKind | null {
  if (/^(?:working|business) days?$|^(?:workdays?|weekdays?)$/.test(name)) return 'working day';
  return /^days?$/.test(name) ? 'day' : findName(weekdays, name.replace(/s$/, ''));
}

/** `first`, `3rd`; `last` is -1, and `second last` or `2nd to last` is -2. */
export function readOrdinal(text: string): number | null {
  const [, word = '', last] = /^(?:the )?(?:(\S+?)(?:[- ](?:to[- ])?(last))?|last)$/.exec(text) ?? [];
  if (word === '' || word === 'last') return text.endsWith('last') ? -1 : null;
  const number = ordinals.indexOf(word) + 1 || Number(/^([1-9]\d?)(?:st|nd|rd|th)$/.exec(word)?.[1] ?? 0);
  if (number === 0) return null;
  return last === undefined ? number : -number;
}

/** `monday`, `mondays`, `mon-fri`, `friday to monday`. */
function readWeekdays(word: string): readonly number[] | null {
  const [first, last = first] = word.split(/ to | ?- ?/).map((name) => findName(weekdays, name.replace(/s$/, '')));
  if (first == null || last == null) return null;
  // A range may go over Sunday: `sun-thu`, `friday to monday`.
  const length = ((last - first + 7) % 7) + 1;
  return Array.from({ length }, (_, index) => ((first - 1 + index) % 7) + 1);
}

function parseOnDay(on: string): CalendarDay | RuleFault {
  const read = /^days? /.test(on) ? readDays(on.replace(/^days? /, '')) : { wrong: on };
  if ('numbers' in read) return { period: 'monthly', days: read.numbers };
  const meant = ['weekly', 'monthly', 'yearly'].find((start) => !('fault' in parseDays(`${start} on ${on}`)));
  const fault = `on needs days of the month such as on day 1 and 15 at 06:00${writeFound(read.wrong)}`;
  return meant === undefined ? { fault } : { fault, meant: `${meant} on ${on}` };
}

function parseYearly(on: string): CalendarDay | RuleFault {
  const date = parseDate(on);
  if (date?.isYearly) {
    const at = new Date(date.day * DAY_MS);
    return { period: 'yearly', month: at.getUTCMonth() + 1, day: at.getUTCDate() };
  }
  const [, first = '', last = ''] = /^(\S+) (\S+)$/.exec(on) ?? [];
  const nearest = findName(months, last) === null ? nearestName(last, months) : null;
  const meant = [`${last} ${first}`, `${first} ${nearest}`].find((each) => parseDate(each)?.isYearly);
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
  return { fault: `yearly needs a date such as yearly on 14 february at 20:00${writeFound(on)}${hint}` };
}

/** The numbers of a list, ascending and without duplicates, or the first word that is not one. */
type ReadList = { readonly numbers: readonly number[] } | { readonly wrong: string };

/** `monday, wednesday and friday` */
export function readList(list: string, read: (word: string) => number | readonly number[] | null): ReadList {
  const words = list.split(/ ?, ?(?:and )?| and /);
  const numbers: number[] = [];
  for (const word of words) {
    const number = read(word);
    if (number === null) return { wrong: word === '' ? list : word };
    numbers.push(...[number].flat());
  }
  return { numbers: [...new Set(numbers)].sort((one, other) => one - other) };
}

function readDays(list: string): ReadList {
  return readList(list, (word) => (word === 'last' ? 31 : readDay(word.replace(/^the /, ''))));
}

function readDay(word: string): number | null {
  const day = Number(/^(\d{1,2})(?:st|nd|rd|th)?$/.exec(word)?.[1] ?? 0);
  return day >= 1 && day <= 31 ? day : null;
}
