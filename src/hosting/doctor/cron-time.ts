import type { Reading } from '../../config/reading.ts';
import { type CronField, parseCronField } from './cron-field.ts';
import { findLongestGapMs } from './longest-gap.ts';

const months = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const weekdays = 'sun mon tue wed thu fri sat'.split(' ');

/** In cron's order. */
const fields: readonly CronField[] = [
  { name: 'minute', first: 0, last: 59, words: [] },
  { name: 'hour', first: 0, last: 23, words: [] },
  { name: 'day', first: 1, last: 31, words: [] },
  { name: 'month', first: 1, last: 12, words: months },
  { name: 'weekday', first: 0, last: 7, words: weekdays },
];

const nicknames: ReadonlyMap<string, string> = new Map([
  ['@hourly', '0 * * * *'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@weekly', '0 0 * * 0'],
  ['@monthly', '0 0 1 * *'],
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
]);

/**
 * The longest time from one call of a line to the next, by the five fields it begins with, or by a
 * word such as `@daily`. Infinity: it is not called again; null: that cannot be told.
 */
export function readCronGapMs(time: string): Reading<number | null> {
  if (time === '@reboot') return { value: Number.POSITIVE_INFINITY };
  // Where cron knows it, it is a number that it chooses by chance.
  if (time.includes('~')) return { value: null };
  const five = time.startsWith('@') ? nicknames.get(time) : time;
  if (five === undefined) return { expected: `@reboot, ${[...nicknames.keys()].join(', ')}` };
  return readFields(five.split(/\s+/));
}

function readFields(texts: readonly string[]): Reading<number> {
  const numbers = fields.map((field, index) => parseCronField(texts[index] ?? '', field));
  const [minutes, hours, days, months, weekdays] = numbers;
  if (!(minutes && hours && days && months && weekdays)) {
    return { expected: describeField(fields[numbers.indexOf(null)] as CronField) };
  }
  // To cron `*/2` is a star, too.
  const needsBothDays = [texts[2], texts[4]].some((text) => text?.startsWith('*'));
  const gapMs = findLongestGapMs({ minutes, hours, days, months, weekdays, needsBothDays });
  return gapMs === null ? { expected: 'a day that its month has' } : { value: gapMs };
}

function describeField({ name, first, last, words }: CronField): string {
  const named = words.length === 0 ? '' : ` (or ${words[0]} to ${words.at(-1)})`;
  return `its ${name} to be from ${first} to ${last}${named}, or several of them as in 4,5 or 1-6 or */3`;
}
