import { nearestName } from '../../../system/base/suggest.ts';
import { DAY_MS, MINUTE_MS } from '../../../system/base/values.ts';
import { type CalendarRule, type FixedUnit, fixedUnitMs, type RepeatRule, type RuleDays } from '../rule.ts';
import { dailyExpected, parseDays, readList } from './days.ts';
import { guessTime, type RuleFault, readClockTime, writeFound } from './fault.ts';
import { findName, weekdays } from './names.ts';
import { correctRhythm } from './rhythm.ts';

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
  readonly days: RuleDays | null;
  readonly clock: ClockTimes | null;
}

/** The days of `every 2 weeks from 2026-11-30 on monday at 09:00`; `every 2 hours from 9 to 17` has none. */
const rhythmForm =
  /^(?<days>every (?:\d+ )?(?:day|week|month|year)s? from (?!\S+ to )(?:(?! (?:at|every)\b).)*)(?: (?<kind>at|every)(?: (?<clock>.*))?)?$/;
const rulesForm = /^(?:(?<days>(?!every\b).*?) )?(?<kind>at|every)(?: (?<clock>.*))?$/;

/** `daily 07:00`, `weekdays 7 pm` */
const timeAtEnd = /^(.+) (\d{1,2}(?::\d\d)?(?: ?[ap]m)?\b.*|noon|midnight)$/;

/** Reads `weekdays every 15min from 09:00 to 17:00`, in lower case and without a zone. */
export function parseWords(words: string): Words | RuleFault {
  const { days, kind, clock } = (rhythmForm.exec(words) ?? rulesForm.exec(words))?.groups ?? { days: words };
  if (days === undefined && kind === 'at') return { fault: 'it does not say on which days', meant: `daily ${words}` };
  const [, dayWords = '', time] = timeAtEnd.exec(kind === undefined ? words : '') ?? [];
  const before = time === undefined ? null : parseDays(dayWords);
  if (before !== null && (!('fault' in before) || before.meant !== undefined))
    return { fault: 'at stands before a time', meant: `${dayWords} at ${time}` };
  const named = days === undefined ? null : parseDays(days);
  if (named !== null && 'fault' in named) {
    return named.meant === undefined ? named : { ...named, meant: `${named.meant}${words.slice(days?.length)}` };
  }
  // `daily at` lacks its time. `daily` alone does not come here: it is a rule of Bedrock.
  if (kind !== undefined && clock === undefined && days === 'daily') return { fault: dailyExpected };
  const read = kind === undefined ? null : kind === 'at' ? parseAt(clock ?? '') : parseEvery(clock ?? '');
  return read !== null && 'fault' in read ? read : { days: named, clock: read };
}

const starts = ['daily', 'weekdays', 'weekends', 'weekly', 'monthly', 'yearly', 'every', 'on'];

/** The rule that was probably meant by a text that begins with a wrong word; null: no guess. */
export function correctStart(text: string): string | null {
  const words = text.trim().toLowerCase();
  const rhythm = correctRhythm(words);
  if (rhythm !== null) return rhythm;
  const [monthly, time] = words.replace(/ (?:of|in) (?:the|each|every) month\b/, '').split(/ (?=at )/);
  if ('on' in parseDays(`monthly on ${monthly}`)) return `monthly on ${monthly} ${time ?? 'at 10:00'}`;
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
  if (rhythm !== null) return { fault: 'it does not say from which date it counts', meant: rhythm };
  const [, start = '', time = '10:00'] = /^(.+?)s?(?:(?: at)? (\d.*|noon|midnight))?$/.exec(clock) ?? [];
  const known = new Map([
    ['day', 'daily'],
    ['weekday', 'weekdays'],
    ['weekend', 'weekends'],
    ['week', 'weekly on monday'],
    ['month', 'monthly on 1'],
    ['year', 'yearly on 1 january'],
  ]);
  const days = known.get(start) ?? ('on' in parseDays(`weekly on ${start}`) ? `weekly on ${start}` : null);
  return days === null ? { fault: everyExpected } : { fault: '', meant: `${days} at ${time}` };
}

const LONGEST_EVERY_MS = 36_525 * DAY_MS;

/** The rule of `every 90 seconds`, which counts from the end of a job. A zone without limits means another rule. */
export function delayOf(
  { count, unit }: Extract<ClockTimes, { kind: 'every' }>,
  { text, zone, limits }: Pick<CalendarRule, 'text' | 'zone' | 'limits'>,
): { readonly rule: RepeatRule } | RuleFault {
  if (zone !== null && limits === undefined) return { fault: `every needs no time zone; ${calendarHint}` };
  if (count * fixedUnitMs[unit] > LONGEST_EVERY_MS) {
    return { fault: 'every allows at most 36525 days (100 years)' };
  }
  const modifiers = [{ kind: 'add', count, unit }] as const;
  const limited = limits !== undefined && { limits, zone };
  return { rule: { kind: 'moment', text, base: 'finished', isDelay: true, modifiers, ...limited } };
}

const DAY_MINUTES = 1440;

/** The minutes of the day at which a clock is due; without a window they start at midnight. */
export function timesOfDay(clock: ClockTimes): readonly number[] | RuleFault {
  if (clock.kind === 'at') return clock.times;
  const { count, unit, words, window } = clock;
  const step = (count * fixedUnitMs[unit]) / MINUTE_MS;
  if (!Number.isInteger(step)) return { fault: 'the shortest interval by the clock is every minute' };
  if (step > DAY_MINUTES) return faultOfRare(words, step);
  if (window === null && DAY_MINUTES % step !== 0) return { fault: describeUneven(words, step) };
  const [from, to] = window ?? [0, DAY_MINUTES - 1];
  // A window that goes over midnight ends on the next day.
  const span = to > from ? to - from : to - from + DAY_MINUTES;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => from + index * step);
}

const LONGEST_FOLDER = 366 * DAY_MINUTES;

/** A rhythm longer than a day. Folders have such rhythms, and so have rules that count from a date or a job's end. */
function faultOfRare(words: string, step: number): RuleFault {
  const cure = step > LONGEST_FOLDER ? '' : `a script runs that often in jobs/${folderOf(step)}, without a schedule, `;
  const fault = `every ${words} is longer than a day; ${cure}a job by the rule every ${words} alone`;
  const meant = step === 7 * DAY_MINUTES ? 'weekly on monday at 10:00' : correctRhythm(`every ${words}`);
  return meant === null ? { fault } : { fault, meant };
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
