import { nearestName } from '../../system/base/suggest.ts';
import {
  type BaseMoment,
  type CalendarDay,
  type FixedUnit,
  type Modifier,
  months,
  type RepeatRule,
  type StartUnit,
  type Unit,
  weekdays,
} from './rule.ts';
import { DAY_MS, fixedUnitMs } from './series.ts';
import { isZone, nearestZone } from './time.ts';

/** A rule, or one sentence that says what is wrong in it. */
type ParsedRepeat = { readonly rule: RepeatRule } | { readonly problem: string };

/** What is wrong, without the rule itself. */
type Fault = { readonly fault: string };
type ParsedRule = { readonly rule: RepeatRule } | Fault;

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
  const parsed = isPlainRule(text) ? parsePlain(text) : parseBedrock(text);
  if ('rule' in parsed) return parsed;
  const end = /[.?]$/.test(parsed.fault) ? '' : '.';
  return { problem: `The repeat rule ${quote(text)} is wrong: ${parsed.fault}${end}` };
}

/** Whether a text is meant to be a rule in plain words: `DAILY` alone is one of Bedrock's. */
export function isPlainRule(text: string): boolean {
  return /^\s*(?:every\b|(?:daily|weekly|monthly|yearly)\s+\S|(?:monthly|yearly)\s*$)/i.test(text);
}

function parsePlain(text: string): ParsedRule {
  const words = text.trim().replaceAll(/\s+/g, ' ');
  return /^every\b/i.test(words) ? parseEvery(words.toLowerCase()) : parseCalendarRule(words);
}

const everyForm = /^every (?:([1-9]\d{0,7}) )?(second|minute|hour|day|week)s?( in .*)?$/;

const LONGEST_EVERY_MS = 36_525 * DAY_MS;

const calendarHint = 'for a time of the day write a rule such as daily at 10:00 or weekly on monday at 01:00';
const everyExpected = `every expects a whole number from 1 to 99999999 and seconds, minutes, hours, days or weeks; ${calendarHint}`;

/** `every 90 seconds`, `every week`. */
function parseEvery(words: string): ParsedRule {
  const [, count = '1', unit, zone] = everyForm.exec(words) ?? [];
  if (unit === undefined) return { fault: everyExpected };
  if (zone !== undefined) return { fault: `every needs no time zone; ${calendarHint}` };
  const [each, name]: [number, FixedUnit] = unit === 'week' ? [7, 'day'] : [1, unit as FixedUnit];
  const modifier = { kind: 'add', count: Number(count) * each, unit: name } as const;
  if (modifier.count * fixedUnitMs[name] > LONGEST_EVERY_MS) {
    return { fault: 'every expects at most 36525 days, which are 100 years' };
  }
  return { rule: { kind: 'moment', text: words, base: 'finished', isDelay: true, modifiers: [modifier] } };
}

const calendarForm = /^(?<day>\w+(?: on .*?)?) at (?<time>\S+)(?: in (?<zone>.+))?$/i;
const timeForm = /^([01]?\d|2[0-3]):([0-5]\d)$/;

/** `daily at 10:00`, `monthly on last at 00:00 in Europe/Berlin`. */
function parseCalendarRule(words: string): ParsedRule {
  const { day: dayWords, time, zone = null } = calendarForm.exec(words)?.groups ?? {};
  const day = parseCalendarDay((dayWords ?? words).toLowerCase());
  if ('fault' in day) return day;
  if (time === undefined) return { fault: 'it expects a time at its end, such as at 10:00' };
  const [, hour, minute] = timeForm.exec(time) ?? [];
  if (hour === undefined || minute === undefined) {
    return { fault: `at expects a time from 00:00 to 23:59${found(time)}` };
  }
  if (zone !== null && !isZone(zone)) return { fault: describeZone(zone) };
  const start = `${dayWords} at ${hour.padStart(2, '0')}:${minute}`.toLowerCase();
  const text = zone === null ? start : `${start} in ${zone}`;
  const clock = { hour: Number(hour), minute: Number(minute), zone };
  return { rule: { kind: 'calendar', text, on: day.on, ...clock } };
}

function describeZone(zone: string): string {
  const nearest = nearestZone(zone);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `in expects a time zone such as Europe/Berlin or UTC${found(zone)}${hint}`;
}

type ParsedDay = { readonly on: CalendarDay } | Fault;

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

/** The days of each month, February's in a leap year. */
const daysOfMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

function parseYearly(on: string): ParsedDay {
  const [, dayWord = '', name = ''] = /^(\S+) (\S+)$/.exec(on) ?? [];
  const month = findName(months, name);
  const day = month === null ? null : readDay(dayWord, daysOfMonths[month - 1] ?? 0);
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
function parseBedrock(text: string): ParsedRule {
  const upper = upperCase(text);
  const canned = cannedRules.get(upper);
  if (canned !== undefined) {
    return { rule: { kind: 'moment', text: upper, base: 'finished', modifiers: [canned] } };
  }
  const [first = '', ...others] = splitParts(text);
  const base = bases.get(upperCase(first));
  if (base === undefined) return { fault: describeBase(text, first) };
  const modifiers: Modifier[] = [];
  for (const [index, part] of others.entries()) {
    const modifier = parseModifier(upperCase(part));
    if (modifier === null) {
      const fault = describeModifier(upperCase(part));
      return { fault: `its modifier ${index + 1}, ${quote(part)}, ${fault}` };
    }
    modifiers.push(modifier);
  }
  const [next, ...rest] = modifiers;
  if (next === undefined) {
    return { fault: `it does not say how long after: write ${first}, +1 HOUR or the like` };
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

function describeBase(text: string, first: string): string {
  const word = upperCase(first.trim());
  if (text.trim() === '') return 'it is empty: write a rule such as FINISHED, +1 HOUR or daily at 10:00';
  if (bases.has(word)) return `there is a blank behind ${word}: remove it`;
  if (cannedRules.has(word)) return `${word} stands alone, without blanks or anything else around it`;
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

const addForm = /^(?<count>[+-](?:\d{1,8}(?= SECOND)|\d{1,3})) (?<unit>SECOND|MINUTE|HOUR|DAY|MONTH|YEAR)S?$/;

/** `+1 HOUR`, `START OF DAY`, `WEEKDAY 1`, in upper case; null for what `describeModifier` explains. */
function parseModifier(text: string): Modifier | null {
  const { count, unit = '' } = addForm.exec(text)?.groups ?? {};
  // Not -0, which is another value to some.
  if (count !== undefined) {
    return { kind: 'add', count: Number(count) || 0, unit: unit.toLowerCase() as Unit };
  }
  const [, start] = /^START OF (HOUR|DAY|MONTH|YEAR)$/.exec(text) ?? [];
  if (start !== undefined) {
    return { kind: 'start-of', unit: start.toLowerCase() as StartUnit };
  }
  const [, weekday] = /^WEEKDAY ([0-6])$/.exec(text) ?? [];
  return weekday === undefined ? null : { kind: 'weekday', weekday: Number(weekday) };
}

const modifierExpected =
  'a modifier is +N or -N SECONDS, MINUTES, HOURS, DAYS, MONTHS or YEARS, START OF HOUR, DAY, MONTH or YEAR, ' +
  'or WEEKDAY 0 (Sunday) to 6';

/** The slips that people make, the most telling one first, each with what to write instead. */
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
  [/^[+-]\d{4,} (YEAR|MONTH|DAY|HOUR|MINUTE)S?$/, 'is too large: at most 999, or several modifiers'],
  [/^[+-]\d+:\d+/, 'is not possible: rules with modifiers are in UTC'],
  [/^(UTC|LOCALTIME)$/, 'is not possible: rules with modifiers are in UTC'],
  [/^START OF WEEK$/, 'is not possible: a week begins with WEEKDAY 0 or WEEKDAY 1, START OF DAY'],
  [/^START OF /, 'expects HOUR, DAY, MONTH or YEAR'],
  [/^WEEKDAY/, 'expects a number from 0 (Sunday) to 6 (Saturday)'],
];

/** What is wrong in a text that is no modifier; completes its name: "lacks its sign: …". */
function describeModifier(text: string): string {
  const slip = slips.find(([form]) => form.test(text));
  return slip === undefined ? `is not understood: ${modifierExpected}` : slip[1];
}

function found(words: string): string {
  return words === '' ? '' : `, found ${quote(words)}`;
}

const LONGEST_SHOWN = 80;

/** What was found, as JSON so that blanks and control characters are seen, and not all of a long one. */
function quote(text: string): string {
  const letters = [...text];
  const shown = letters.length <= LONGEST_SHOWN ? text : `${letters.slice(0, LONGEST_SHOWN).join('')}…`;
  return JSON.stringify(shown);
}
