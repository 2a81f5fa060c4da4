import { nearestName } from '../base/suggest.ts';
import {
  type BaseMoment,
  blameRule,
  type CalendarDay,
  type CalendarUnit,
  DAY_MS,
  type FixedUnit,
  fixedUnitMs,
  isZone,
  type Modifier,
  nearestZone,
  type ParsedRepeat,
  quote,
} from './rule.ts';

/** A rule is read again at each end of its job. */
const LONGEST_RULE = 1000;

/**
 * Reads a rule: in the grammar of Bedrock::Jobs (`SCHEDULED, +1 HOUR`, `DAILY`), or in plain words
 * (`every 90 seconds`, `daily at 10:00 in Europe/Berlin`). docs/repeat.md has them all.
 */
export function parseRepeat(text: string): ParsedRepeat {
  if (text.length > LONGEST_RULE) {
    return {
      problem: `The repeat rule is too long: it has ${text.length} characters, at most ${LONGEST_RULE} are possible.`,
    };
  }
  return isPlainRule(text) ? parsePlainRule(text) : parseMomentRule(text);
}

type ReadModifier = (match: RegExpExecArray) => Modifier;

/** Bedrock's grammar; what is read is in upper case. */
const forms: readonly (readonly [RegExp, ReadModifier])[] = [
  [/^([+-]\d{1,8}) (SECOND)S?$/, readAdd],
  [/^([+-]\d{1,3}) (YEAR|MONTH|DAY|HOUR|MINUTE)S?$/, readAdd],
  [/^START OF (HOUR|DAY|MONTH|YEAR)$/, readStart],
  [/^WEEKDAY ([0-6])$/, ([, day]) => ({ kind: 'weekday', weekday: Number(day) })],
];

/** `+1 HOUR`, `START OF DAY`, `WEEKDAY 1`; null for what is none, which `blameModifier` explains. */
function parseModifier(text: string): Modifier | null {
  for (const [form, read] of forms) {
    const match = form.exec(text);
    if (match !== null) return read(match);
  }
  return null;
}

function readAdd([, count, unit = '']: RegExpExecArray): Modifier {
  const name = unit.toLowerCase() as FixedUnit | CalendarUnit;
  // Not -0, which is another value to some.
  return { kind: 'add', count: Number(count) || 0, unit: name };
}

function readStart([, unit = '']: RegExpExecArray): Modifier {
  return { kind: 'start-of', unit: unit.toLowerCase() as 'hour' | 'day' | CalendarUnit };
}

const expected =
  'a modifier is +N or -N SECONDS, MINUTES, HOURS, DAYS, MONTHS or YEARS, START OF HOUR, DAY, MONTH or YEAR, ' +
  'or WEEKDAY 0 (Sunday) to 6';

/** The slips that people make, the most telling one first, each with its cure. */
const slips: readonly (readonly [RegExp, string])[] = [
  [/[\t\r\n]/, 'has a tab or a line break in it: only blanks are possible, and not at its end'],
  [/ $/, 'ends in a blank: remove it'],
  [/^(SCHEDULED|STARTED|FINISHED)$/, 'is a base: a rule has one, at its beginning'],
  [/^(HOURLY|DAILY|WEEKLY)$/, 'stands alone: it is a rule by itself'],
  [/^\d/, 'lacks its sign: begin it with + or -'],
  [/^[+-] +\d/, 'has a blank behind its sign: remove it'],
  [/^[+-]\d+ {2,}[A-Z]/, 'has more than one blank in it'],
  [/^[+-]\d+[A-Z]/, 'lacks the blank between number and unit'],
  [/^[+-]\d*[.,]\d/, 'is not a whole number: take a smaller unit'],
  [/^[+-]\d+ WEEKS?$/, 'has a unit that there is not: 1 week is +7 DAYS'],
  [/^[+-]\d{9,} SECONDS?$/, 'is too large: at most 99999999 seconds'],
  [
    /^[+-]\d{4,} (YEAR|MONTH|DAY|HOUR|MINUTE)S?$/,
    'is too large: at most 999, or several modifiers',
  ],
  [/^[+-]\d+:\d+/, 'is not possible: rules with modifiers are in UTC'],
  [/^(UTC|LOCALTIME)$/, 'is not possible: rules with modifiers are in UTC'],
  [/^START OF WEEK$/, 'is not possible: a week begins with WEEKDAY 0 or WEEKDAY 1, START OF DAY'],
  [/^START OF /, 'expects HOUR, DAY, MONTH or YEAR'],
  [/^WEEKDAY/, 'expects a number from 0 (Sunday) to 6 (Saturday)'],
];

/** What is wrong in a text that is no modifier; completes its name: "lacks its sign: …". */
function blameModifier(text: string): string {
  const slip = slips.find(([form]) => form.test(text));
  return slip === undefined ? `is not understood: ${expected}` : slip[1];
}

/** As the document of Bedrock::Jobs defines them; its code has other ones. */
const cannedRules: ReadonlyMap<string, Modifier> = new Map([
  ['HOURLY', { kind: 'add', count: 1, unit: 'hour' }],
  ['DAILY', { kind: 'add', count: 1, unit: 'day' }],
  ['WEEKLY', { kind: 'add', count: 7, unit: 'day' }],
]);

const bases: ReadonlyMap<string, BaseMoment> = new Map([
  ['SCHEDULED', 'scheduled'],
  ['STARTED', 'started'],
  ['FINISHED', 'finished'],
]);

/** The grammar of Bedrock::Jobs: `HOURLY`, or a base and its modifiers, separated by commas. */
function parseMomentRule(text: string): ParsedRepeat {
  const upper = upperCase(text);
  const canned = cannedRules.get(upper);
  if (canned !== undefined) {
    return { rule: { kind: 'moment', text: upper, base: 'finished', modifiers: [canned] } };
  }
  const [first = '', ...others] = splitParts(text);
  const base = bases.get(upperCase(first));
  if (base === undefined) return blameRule(text, blameBase(text, first));
  const modifiers: Modifier[] = [];
  for (const [index, part] of others.entries()) {
    const modifier = parseModifier(upperCase(part));
    if (modifier === null) {
      const fault = blameModifier(upperCase(part));
      return blameRule(text, `its modifier ${index + 1}, ${quote(part)}, ${fault}`);
    }
    modifiers.push(modifier);
  }
  const [next, ...rest] = modifiers;
  if (next === undefined) {
    return blameRule(text, `it does not say how long after: write ${first}, +1 HOUR or the like`);
  }
  return { rule: { kind: 'moment', text: upper, base, modifiers: [next, ...rest] } };
}

/** Only ASCII, as Bedrock does: `toUpperCase` turns other letters into some of the grammar's. */
function upperCase(text: string): string {
  return text.replaceAll(/[a-z]/g, (letter) => letter.toUpperCase());
}

/** As Bedrock splits a list: blanks before a part are dropped, those after it stay, empty parts are dropped. */
function splitParts(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.replace(/^ +/, ''))
    .filter((part) => part !== '');
}

function blameBase(text: string, first: string): string {
  const word = upperCase(first.trim());
  if (text.trim() === '') return 'it is empty: write FINISHED, +1 HOUR or daily at 10:00, say';
  if (bases.has(word)) return `there is a blank behind ${word}: remove it`;
  if (cannedRules.has(word))
    return `${word} stands alone, without blanks or anything else around it`;
  if (parseModifier(word) !== null) {
    return `it does not say from when: write FINISHED, ${word} or SCHEDULED, ${word}`;
  }
  const nearest = nearestName(word, [...bases.keys(), ...cannedRules.keys()]);
  if (nearest !== null) return `it begins with ${quote(first)}; did you mean ${nearest}?`;
  return (
    `it begins with ${quote(first)}, but a rule begins with SCHEDULED, STARTED or FINISHED, ` +
    'or with every, daily, weekly, monthly or yearly, or is just HOURLY, DAILY or WEEKLY'
  );
}

/** Whether a text is meant to be a rule in plain words: `DAILY` alone is one of Bedrock's. */
export function isPlainRule(text: string): boolean {
  return /^\s*(?:every\b|(?:daily|weekly|monthly|yearly)\s+\S|(?:monthly|yearly)\s*$)/i.test(text);
}

/** `every 90 seconds`, `daily at 10:00`, `monthly on last at 00:00 in Europe/Berlin`. */
function parsePlainRule(text: string): ParsedRepeat {
  const words = text.trim().replaceAll(/\s+/g, ' ');
  return /^every\b/i.test(words) ? parseEvery(text, words) : parseCalendarRule(text, words);
}

const everyForm = /^every (?:([1-9]\d{0,7}) )?(second|minute|hour|day|week)s?( in .*)?$/;

const LONGEST_EVERY_MS = 36_525 * DAY_MS;

const calendarHint = 'for a time of the day write daily at 10:00 or weekly on monday at 01:00, say';
const everyExpected =
  'every expects a whole number from 1 to 99999999 and seconds, minutes, hours, days or weeks; ' +
  calendarHint;

function parseEvery(text: string, words: string): ParsedRepeat {
  const [, count = '1', unit, zone] = everyForm.exec(words.toLowerCase()) ?? [];
  if (unit === undefined) return blameRule(text, everyExpected);
  if (zone !== undefined) return blameRule(text, `every needs no time zone; ${calendarHint}`);
  const [each, name]: [number, FixedUnit] = unit === 'week' ? [7, 'day'] : [1, unit as FixedUnit];
  const modifier = { kind: 'add', count: Number(count) * each, unit: name } as const;
  if (modifier.count * fixedUnitMs[name] > LONGEST_EVERY_MS) {
    return blameRule(text, 'every expects at most 36525 days, which are 100 years');
  }
  const canonical = words.toLowerCase();
  return { rule: { kind: 'moment', text: canonical, base: 'finished', modifiers: [modifier] } };
}

const calendarForm = /^(?<day>\w+(?: on .*?)?) at (?<time>\S+)(?: in (?<zone>.+))?$/i;
const timeForm = /^([01]?\d|2[0-3]):([0-5]\d)$/;

function parseCalendarRule(text: string, words: string): ParsedRepeat {
  const { day: dayWords, time, zone = null } = calendarForm.exec(words)?.groups ?? {};
  const day = parseCalendarDay((dayWords ?? words).toLowerCase());
  if ('fault' in day) return blameRule(text, day.fault);
  if (time === undefined) return blameRule(text, 'it expects a time at its end, such as at 10:00');
  const [, hour, minute] = timeForm.exec(time) ?? [];
  if (hour === undefined || minute === undefined) {
    return blameRule(text, `at expects a time from 00:00 to 23:59, found ${quote(time)}`);
  }
  if (zone !== null && !isZone(zone)) return blameRule(text, blameZone(zone));
  const start = `${dayWords} at ${hour.padStart(2, '0')}:${minute}`.toLowerCase();
  const canonical = zone === null ? start : `${start} in ${zone}`;
  const clock = { hour: Number(hour), minute: Number(minute), zone };
  return { rule: { kind: 'calendar', text: canonical, on: day.on, ...clock } };
}

function blameZone(zone: string): string {
  const nearest = nearestZone(zone);
  const cure = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `in expects a time zone such as Europe/Berlin or UTC, found ${quote(zone)}${cure}`;
}

type ParsedDay = { readonly on: CalendarDay } | { readonly fault: string };

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
function parseCalendarDay(words: string): ParsedDay {
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
