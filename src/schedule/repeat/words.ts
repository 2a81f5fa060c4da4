import { nearestName } from '../../system/base/suggest.ts';
import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import { correctRhythm, guessTime, type RuleFault, readClockTime, writeFound } from './fault.ts';
import { findName, months, weekdays } from './names.ts';
import { type CalendarDay, type FixedUnit, fixedUnitMs, ordinals, type RepeatRule } from './rule.ts';

/** `at 02:30 and 14:30`, in minutes of the day, or `every 15min from 09:00 to 17:00`. */
export type ClockTimes =
  | { readonly kind: 'at'; readonly times: readonly number[] }
  | {
      readonly kind: 'every';
      readonly count: number;
      readonly unit: FixedUnit;
      /** As it is written. */
      readonly words: string;
      readonly window: readonly [number, number] | null;
    };

/** A rule in plain words; a part that is left out is null. */
interface Words {
  readonly on: CalendarDay | null;
  readonly clock: ClockTimes | null;
}

const rulesForm = /^(?:(?<days>(?!every\b).*?) )?(?<kind>at|every)(?: (?<clock>.*))?$/;

/** `daily 07:00`, `weekdays 7 pm` */
const timeAtEnd = /^(.+) (\d{1,2}(?::\d\d)?(?: ?[ap]m)?\b.*|noon|midnight)$/;

/** Reads `weekdays every 15min from 09:00 to 17:00`, in lower case and without a zone. */
export function parseWords(words: string): Words | RuleFault {
  const { days, kind, clock } = rulesForm.exec(words)?.groups ?? { days: words };
  if (days === undefined && kind === 'at') return { fault: 'it does not say on which days', meant: `daily ${words}` };
  const [, dayWords = '', time] = timeAtEnd.exec(kind === undefined ? words : '') ?? [];
  const before = time === undefined ? null : parseDays(dayWords);
  if (before !== null && (!('fault' in before) || before.meant !== undefined))
    return { fault: 'at stands before a time', meant: `${dayWords} at ${time}` };
  const on = days === undefined ? null : parseDays(days);
  if (on !== null && 'fault' in on) {
    return on.meant === undefined ? on : { ...on, meant: `${on.meant}${words.slice(days?.length)}` };
  }
  // `daily at` lacks its time. `daily` alone does not come here: it is a rule of Bedrock.
  if (kind !== undefined && clock === undefined && days === 'daily') return { fault: dailyExpected };
  const read = kind === undefined ? null : kind === 'at' ? parseAt(clock ?? '') : parseEvery(clock ?? '');
  return read !== null && 'fault' in read ? read : { on, clock: read };
}

const starts = ['daily', 'weekdays', 'weekends', 'weekly', 'monthly', 'yearly', 'every', 'on'];

/** The rule that was probably meant by a text that begins with a wrong word; null: no guess. */
export function correctStart(text: string): string | null {
  const words = text.trim().toLowerCase();
  const rhythm = correctRhythm(words);
  if (rhythm !== null) return rhythm;
  const [, first = '', rest = ''] = /^(\w+)(.*)$/s.exec(words) ?? [];
  if (/^(?:every|each)(?:day)?$/.test(first)) return `${first.endsWith('day') ? 'daily' : 'every'}${rest}`;
  if (findName(weekdays, first.replace(/s$/, '')) !== null) return `weekly on ${words.replace(/^(\w+?)s\b/, '$1')}`;
  const nearest = nearestName(first, starts);
  return nearest === null || nearest === first || rest === '' ? null : `${nearest}${rest}`;
}

/** Corrects the times of a rule: `daily at 7 and 7pm` becomes `daily at 07:00 and 19:00`. */
export function correctTimes(words: string): string {
  const [, days, times] = /^(.* at )(.+)$/.exec(words) ?? [];
  if (times === undefined) return words;
  return `${days}${times.replaceAll(/[^\s,]+(?: [ap]m\b)?/g, (time) => guessTime(time) ?? time)}`;
}

const dailyExpected = 'daily needs a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin';

/** `daily`, `weekdays`, `weekly on monday`, `on day 1 and 15`, `monthly on the last friday`, `yearly on 14 february`. */
function parseDays(words: string): CalendarDay | RuleFault {
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
  const nth = /^(?:the )?([a-z]+) ([a-z]+)$/.exec(on);
  if (nth !== null && nth[1] !== 'day') return parseNth(nth[1] as string, nth[2] as string);
  const read = readDays(on.replace(/^(?:the |day )/, ''));
  if ('numbers' in read) return { period: 'monthly', days: read.numbers };
  return { fault: `monthly needs a day from 1 to 31 or last, such as monthly on 1 at 00:00${writeFound(read.wrong)}` };
}

/** `monday`, `mondays`, `mon-fri`, `friday to monday`. */
function readWeekdays(word: string): readonly number[] | null {
  const [first, last = first] = word.split(/ to | ?- ?/).map((name) => findName(weekdays, name.replace(/s$/, '')));
  if (first == null || last == null) return null;
  // A range may go over Sunday: `sun-thu`, `friday to monday`.
  const length = ((last - first + 7) % 7) + 1;
  return Array.from({ length }, (_, index) => ((first - 1 + index) % 7) + 1);
}

/** `last friday`, `last day`. */
function parseNth(ordinal: string, name: string): CalendarDay | RuleFault {
  const nth = [...ordinals].find(([, word]) => word === ordinal)?.[0];
  if (nth === -1 && name === 'day') return { period: 'monthly', days: [31] };
  const weekday = findName(weekdays, name);
  const expected = 'monthly needs a day such as 1, last, the last friday or the second tuesday';
  if (weekday === null) return { fault: `${expected}${writeFound(name, weekdays)}` };
  if (nth === undefined)
    return { fault: `${expected}, the first to the fourth or the last${writeFound(ordinal, [...ordinals.values()])}` };
  return { period: 'monthly', nth, weekday };
}

function parseOnDay(on: string): CalendarDay | RuleFault {
  const read = /^days? /.test(on) ? readDays(on.replace(/^days? /, '')) : { wrong: on };
  if ('numbers' in read) return { period: 'monthly', days: read.numbers };
  const meant = starts.slice(3, 6).find((start) => !('fault' in parseDays(`${start} on ${on}`)));
  const fault = `on needs days of the month such as on day 1 and 15 at 06:00${writeFound(read.wrong)}`;
  return meant === undefined ? { fault } : { fault, meant: `${meant} on ${on}` };
}

/** The days of each month, February's in a leap year. */
const daysOfMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

function parseYearly(on: string): CalendarDay | RuleFault {
  const [, dayWord = '', name = ''] = /^(\S+) (\S+)$/.exec(on) ?? [];
  const month = findName(months, name);
  const day = month === null ? null : readDay(dayWord, daysOfMonths[month - 1] ?? 0);
  if (month !== null && day !== null) return { period: 'yearly', month, day };
  const expected = 'yearly needs a date such as yearly on 14 february at 20:00';
  const isTurned = findName(months, dayWord) !== null && readDay(name, 31) !== null;
  const meant = isTurned ? `${name} ${dayWord}` : month === null ? nearestName(name, months) : null;
  const date = isTurned || meant === null ? meant : `${dayWord} ${meant}`;
  return { fault: `${expected}${writeFound(on)}${date === null ? '' : `; did you mean ${date}?`}` };
}

/** The numbers of a list, ascending and without duplicates, or the first word that is not one. */
type ReadList = { readonly numbers: readonly number[] } | { readonly wrong: string };

/** `monday, wednesday and friday` */
function readList(list: string, read: (word: string) => number | readonly number[] | null): ReadList {
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
  return readList(list, (word) => (word === 'last' ? 31 : readDay(word.replace(/^the /, ''), 31)));
}

function readDay(word: string, last: number): number | null {
  const day = Number(/^(\d{1,2})(?:st|nd|rd|th)?$/.exec(word)?.[1] ?? 0);
  return day >= 1 && day <= last ? day : null;
}

function parseAt(clock: string): ClockTimes | RuleFault {
  const read = readList(clock, readClockTime);
  if ('numbers' in read) return { kind: 'at', times: read.numbers };
  const meant = guessTime(read.wrong);
  const hint = meant === null ? '' : `; did you mean ${meant}?`;
  return { fault: `at needs a time from 00:00 to 23:59${writeFound(read.wrong)}${hint}` };
}

const everyForm =
  /^(?:(?<count>[1-9]\d{0,7}) ?)?(?:(?<second>s|secs?|seconds?)|(?<minute>m|mins?|minutes?)|(?<hour>h|hrs?|hours?)|(?<day>d|days?)|(?<week>w|weeks?))(?: from (?<from>\S+) to (?<to>\S+))?$/;

const calendarHint = 'for a time of the day write a rule such as daily at 10:00 or weekly on monday at 01:00';
const everyExpected = `every needs a whole number from 1 to 99999999 and seconds, minutes, hours, days or weeks; ${calendarHint}`;

/** `90 seconds`, `week`, `15min from 09:00 to 17:00`. */
function parseEvery(clock: string): ClockTimes | RuleFault {
  const groups = everyForm.exec(clock)?.groups;
  if (groups === undefined) return faultOfEvery(clock);
  const { count = '1', from, to, week } = groups;
  const named = (['second', 'minute', 'hour', 'day'] as const).find((each) => groups[each] !== undefined);
  const [unit, each]: [FixedUnit, number] = week === undefined ? [named as FixedUnit, 1] : ['day', 7];
  const interval = { kind: 'every', count: Number(count) * each, unit, words: clock.replace(/ from .*/, '') } as const;
  if (from === undefined || to === undefined) return { ...interval, window: null };
  const window = [readClockTime(from), readClockTime(to)] as const;
  const wrong = window[0] === null ? from : to;
  if (window[0] === null || window[1] === null) {
    return { fault: `from and to need times from 00:00 to 23:59${writeFound(wrong)}` };
  }
  if (from === to) return { fault: 'from and to need two different times' };
  return { ...interval, window: [window[0], window[1]] };
}

function faultOfEvery(clock: string): RuleFault {
  const rhythm = correctRhythm(`every ${clock}`);
  if (rhythm !== null) return { fault: '', meant: rhythm };
  const [, start = '', time = '10:00'] = /^(.+?)s?(?:(?: at)? (\d.*|noon|midnight))?$/.exec(clock) ?? [];
  const known = new Map([
    ['day', 'daily'],
    ['weekday', 'weekdays'],
    ['weekend', 'weekends'],
    ['week', 'weekly on monday'],
    ['month', 'monthly on 1'],
    ['year', 'yearly on 1 january'],
  ]);
  const days = known.get(start) ?? (readWeekdays(start) === null ? null : `weekly on ${start}`);
  return days === null ? { fault: everyExpected } : { fault: '', meant: `${days} at ${time}` };
}

const LONGEST_EVERY_MS = 36_525 * DAY_MS;

/** The rule of `every 90 seconds`, which counts from the end of a job. */
export function delayOf(
  text: string,
  { count, unit }: Extract<ClockTimes, { kind: 'every' }>,
  hasZone: boolean,
): { readonly rule: RepeatRule } | RuleFault {
  if (hasZone) return { fault: `every needs no time zone; ${calendarHint}` };
  if (count * fixedUnitMs[unit] > LONGEST_EVERY_MS) {
    return { fault: 'every allows at most 36525 days (100 years)' };
  }
  const modifier = { kind: 'add', count, unit } as const;
  return { rule: { kind: 'moment', text, base: 'finished', isDelay: true, modifiers: [modifier] } };
}

const DAY_MINUTES = 1440;

/** The minutes of the day at which a clock is due; without a window they start at midnight. */
export function timesOfDay(clock: ClockTimes): readonly number[] | RuleFault {
  if (clock.kind === 'at') return clock.times;
  const { count, unit, words, window } = clock;
  const step = (count * fixedUnitMs[unit]) / MINUTE_MS;
  if (!Number.isInteger(step)) return { fault: 'the shortest interval by the clock is every minute' };
  if (step > DAY_MINUTES) return { fault: describeRare(words, step) };
  if (window === null && DAY_MINUTES % step !== 0) return { fault: describeUneven(words, step) };
  const [from, to] = window ?? [0, DAY_MINUTES - 1];
  // A window that goes over midnight ends on the next day.
  const span = to > from ? to - from : to - from + DAY_MINUTES;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => from + index * step);
}

const LONGEST_FOLDER = 366 * DAY_MINUTES;

/** A rhythm longer than a day. Folders have such rhythms, and so have rules that count from the end of a job. */
function describeRare(words: string, step: number): string {
  const fault = `every ${words} is longer than a day, so that no time of the day says it`;
  const cure = step > LONGEST_FOLDER ? '' : `a script runs that often in jobs/${folderOf(step)}, without a schedule; `;
  return `${fault}; ${cure}a job by the rule every ${words} alone`;
}

function folderOf(step: number): string {
  if (step === 7 * DAY_MINUTES) return 'weekly';
  if (step % DAY_MINUTES === 0) return `${step / DAY_MINUTES}days`;
  return step % 60 === 0 ? `${step / 60}hours` : `${step}min`;
}

/** An interval that does not divide a day would start anew at midnight, after a shorter pause than the others. */
function describeUneven(words: string, step: number): string {
  const unit = step % 60 === 0 ? 60 : 1;
  let [less, more] = [step - unit, step + unit];
  while (DAY_MINUTES % less !== 0) less -= unit;
  while (DAY_MINUTES % more !== 0) more += unit;
  const name = (minutes: number): string => (unit === 60 ? `${minutes / 60} hours` : `${minutes}min`);
  const window = `every ${words} from 00:00 to 23:59`;
  return `a day is not a multiple of ${words}; write every ${name(less)} or every ${name(more)}, or ${window}`;
}
