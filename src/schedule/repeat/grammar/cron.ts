import { CronPattern } from 'croner';
import type { CalendarRule } from '../rule.ts';
import { guessTime, quote, type RuleFault, writeFound } from './fault.ts';

/** Cron's words for times, from cron's manual. */
export const nicknames: ReadonlyMap<string, string> = new Map([
  ['@every_minute', '* * * * *'],
  ['@hourly', '0 * * * *'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@weekly', '0 0 * * 0'],
  ['@monthly', '0 0 1 * *'],
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
]);

/** In cron's order. */
const fieldNames = ['minute', 'hour', 'day of the month', 'month', 'day of the week'] as const;

const expectedValues = ['0 to 59', '0 to 23', '1 to 31', '1 to 12 or jan to dec', '0 to 7 or sun to sat'] as const;

type Fields = readonly [string, string, string, string, string];

/**
 * Reads `0 7 * * mon` and `@daily`, in lower case. Croner interprets the fields; `cronForm` restricts them to cron's
 * own.
 */
export function parseCron(words: string): Pick<CalendarRule, 'on' | 'times' | 'isInterval'> | RuleFault {
  const expanded = words.startsWith('@') ? nicknames.get(words) : words;
  if (expanded === undefined) return faultOfMacro(words);
  const fields = expanded.split(' ');
  if (fields.length !== fieldNames.length) return faultOfCount(words, fields);
  const wrong = fields.findIndex((_, index) => !isRight(fields, index));
  if (wrong !== -1) return { fault: describeField(fields, wrong) };
  const [minute, hour, day, , weekday] = fields as unknown as Fields;
  const pattern = read(fields);
  const minutes = set(pattern.minute);
  return {
    on: {
      period: 'cron',
      days: set(pattern.day).map((index) => index + 1),
      months: set(pattern.month).map((index) => index + 1),
      // Here Sunday is 7.
      weekdays: set(pattern.dayOfWeek)
        .map((index) => index || 7)
        .sort(),
      // As in Vixie's cron, a star with a step counts as a star.
      isBoth: day.startsWith('*') || weekday.startsWith('*'),
    },
    times: set(pattern.hour).flatMap((each) => minutes.map((minuteOfHour) => each * 60 + minuteOfHour)),
    ...((minute.startsWith('*') || hour.startsWith('*')) && { isInterval: true }),
  };
}

/** @throws {TypeError} if croner does not understand the fields */
function read(fields: readonly string[]): CronPattern {
  return new CronPattern(fields.join(' '), undefined, { mode: '5-part' });
}

/** The indexes whose value is not 0. */
function set(values: readonly number[]): number[] {
  return [...values.keys()].filter((index) => values[index] !== 0);
}

/** Excludes what croner knows beyond cron (`L`, `W`, `#`, `?`): a crontab would not understand it. */
const cronForm = /^(?:[\d*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)+$/;

function isRight(fields: readonly string[], index: number): boolean {
  const field = fields[index] as string;
  if (!cronForm.test(field)) return false;
  try {
    read(fieldNames.map((_, other) => (other === index ? field : '*')));
    return true;
  } catch {
    return false;
  }
}

function describeField(fields: readonly string[], index: number): string {
  const field = fields[index] as string;
  const expected = `its ${fieldNames[index]} must be ${expectedValues[index]}, a list, a range or */ and a step`;
  return `${expected}, found ${quote(field)}${index === 4 ? hintForRange(field) : ''}${hintFor(field)}`;
}

/** `fri-mon`: cron's ranges only go upwards; 7 is Sunday. */
function hintForRange(field: string): string {
  const [first = -1, last = -1] = (/^(\w+)-(\w+)$/.exec(field) ?? []).slice(1).map(readWeekday);
  if (last < 0 || first <= last) return '';
  if (last === 0) return `; did you mean ${first}-7?`;
  return `; did you mean ${first === 7 ? '7' : `${first}-7`},${last === 1 ? '1' : `1-${last}`}?`;
}

function readWeekday(word: string): number {
  const index = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'].indexOf(word);
  return /^[0-7]$/.test(word) ? Number(word) : index;
}

function hintFor(field: string): string {
  if (field === '?') return '; did you mean *?';
  if (field.includes('~')) return '; some crons choose a value at random there: write one of them';
  if (/l|w|#/.test(field.replace(/jul|wed/g, ''))) {
    return '; for such days write monthly on last at 02:30 or monthly on the second tuesday at 02:30';
  }
  const [, start, step] = /^(\d+)?\/(\d+)$/.exec(field) ?? [];
  if (step !== undefined) return start === undefined ? `; did you mean */${step}?` : '; a step follows * or a range';
  return '';
}

function faultOfMacro(word: string): RuleFault {
  if (word === '@reboot')
    return { fault: '@reboot is not a time: a script that runs once after each boot has the tag @reboot alone' };
  if (word.startsWith('@every ')) return { fault: '', meant: word.slice(1) };
  const [first = ''] = word.split(' ');
  return {
    fault: `@ must be one of ${[...nicknames.keys()].join(', ')}${writeFound(word, nicknames.has(first) ? [first] : [...nicknames.keys()])}`,
  };
}

const unitForm = /^\d+ ?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)\b/;

function faultOfCount(words: string, fields: readonly string[]): RuleFault {
  if (unitForm.test(words)) return { fault: 'it begins with a number', meant: `every ${words}` };
  const [, time = words, days = 'daily'] = /^(\d{1,2}:\d\d) (daily|weekdays|weekends)$/.exec(words) ?? [];
  const at = /^\d{1,2} ?[ap]m$/.test(time) ? guessTime(time) : time;
  if (/^\d{1,2}:\d\d/.test(at ?? '')) return { fault: 'it does not say on which days', meant: `${days} at ${at}` };
  return { fault: describeCount(fields) };
}

function describeCount(fields: readonly string[]): string {
  const expected = `cron has five fields: ${fieldNames.join(', ')}`;
  if (fields.length > 6 || (fields.length === 6 && !cronForm.test(fields[5] as string))) {
    return `${expected}; leave out what follows them, ${quote(fields.slice(5).join(' '))}`;
  }
  if (fields.length === 6) return `${expected}; these are six: leave out the first one, seconds are not possible`;
  return `${expected}; these are ${fields.length}`;
}
