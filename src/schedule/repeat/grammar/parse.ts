import { nearestName } from '../../../system/base/suggest.ts';
import { isZone } from '../../../system/base/zone.ts';
import {
  type BaseMoment,
  type CalendarRule,
  isCronRule,
  isPlainRule,
  type Modifier,
  type RepeatRule,
  type RuleDays,
  type StartUnit,
  type Unit,
} from '../rule.ts';
import { hasTimes } from '../rule-days.ts';
import { parseCron } from './cron.ts';
import { describeZone, type Ending, readEnding, splitRule } from './ending.ts';
import { quote, type RuleFault } from './fault.ts';
import { type ClockTimes, correctStart, correctTimes, delayOf, parseWords, timesOfDay } from './words.ts';

/** Longest rule, in characters. Each end of its job parses it again. */
const LONGEST_RULE = 1000;

/** A rule, or one sentence that says what is wrong in the text. */
type Parsed<Rule> = { readonly rule: Rule } | { readonly problem: string };

/**
 * Parses the rule of a repeating job: in the grammar of Bedrock::Jobs (`SCHEDULED, +1 HOUR`, `DAILY`), in plain words
 * (`every 90 seconds`, `daily at 10:00 in Europe/Berlin`) or as cron's five fields. docs/scripts.md lists them all.
 */
export function parseRepeat(text: string): Parsed<RepeatRule> {
  return asSentence(read('repeat rule', text, (each) => (isPlainRule(each) ? parsePlain(each) : parseBedrock(each))));
}

/**
 * Parses the schedule of a script: the same rules, except those that count from the end of a job. `every 2 hours`
 * follows the clock, and a day without a time means midnight.
 *
 * @param zone the zone of `@timezone`, for a rule that names none; null: none
 */
export function parseSchedule(text: string, zone: string | null): Parsed<CalendarRule> {
  return asSentence(readSchedule(text, zone));
}

/** The same for a sentence of the caller's. */
export function readSchedule(text: string, zone: string | null): Reading<CalendarRule> {
  return read('schedule', text, (each) => parseForScript(each, zone));
}

/** A rule, or what is wrong in it, as it follows `The` or `its`, and without a full stop. */
type Reading<Rule> = { readonly rule: Rule } | { readonly matter: string };

function asSentence<Rule>(reading: Reading<Rule>): Parsed<Rule> {
  if ('rule' in reading) return reading;
  const { matter } = reading;
  return { problem: `The ${matter}${/[.?]$/.test(matter) ? '' : '.'}` };
}

type Parse<Rule> = (text: string) => { readonly rule: Rule } | RuleFault;

function read<Rule>(what: string, text: string, parse: Parse<Rule>): Reading<Rule> {
  if (text.length > LONGEST_RULE) {
    return { matter: `${what} is too long: it has ${text.length} characters, at most ${LONGEST_RULE} are possible` };
  }
  const parsed = parse(text);
  if ('rule' in parsed) return parsed;
  const fault = describeFault(findLoose(text) ?? parsed, splitRule(text).end, parse);
  return { matter: `${what} ${quote(text)} is wrong: ${fault}` };
}

/**
 * A suggestion may need a correction, too: `each day at 7` becomes `every day at 7`, which becomes `daily at 07:00`.
 */
const MOST_CORRECTIONS = 4;

/** Suggests the valid rule that was probably meant. If no correction is valid, says what is wrong in the last one. */
function describeFault<Rule>(first: RuleFault, endOfText: string, parse: Parse<Rule>): string {
  let [last, end] = [first, endOfText];
  for (let count = 0; last.meant !== undefined && count < MOST_CORRECTIONS; count += 1) {
    end = last.end ?? end;
    const rule = `${correctTimes(last.meant)}${end}`;
    const parsed = parse(rule);
    if ('rule' in parsed) return `${first.fault === '' ? '' : `${first.fault}; `}did you mean ${rule}?`;
    last = parsed;
  }
  return last.fault;
}

/** `daily at 10:00 Europe/Berlin` and `daily at 10:00 but not on holidays.txt` lack a word; null: no such text. */
function findLoose(text: string): RuleFault | null {
  const [, words = '', zone = ''] = /^(.*\S) \(?(UTC|[A-Z]\w+\/[\w/]+)\)?$/.exec(text.trim()) ?? [];
  if (words !== '' && !/ in$/i.test(words) && isZone(zone)) {
    return { fault: 'in stands before a time zone', meant: words, end: ` in ${zone}` };
  }
  const [file, name = ''] = / (?:but )?(?:not|unless|excluding|without)(?: on| in)? (\S+\.\w+)/i.exec(text) ?? [];
  if (file === undefined) return null;
  return { fault: 'except stands before a file of dates', meant: text.replace(file, ` except ${name}`), end: '' };
}

function parsePlain(text: string): { readonly rule: RepeatRule } | RuleFault {
  const split = splitRule(text);
  const { words } = split;
  const ending = readEnding(split, split.zone);
  if ('fault' in ending) return ending;
  if (isCronRule(words)) return toRule(words, ending, parseCron(words));
  const parsed = parseWords(words);
  if ('fault' in parsed) return parsed;
  const { days, clock } = parsed;
  if (days === null && clock?.kind === 'every' && clock.window === null)
    return delayOf(clock, { ...ending, text: words + ending.end });
  if (clock === null) return { fault: 'it needs a time at its end, such as at 10:00' };
  return toRule(words, ending, withTimes(days, clock));
}

function parseForScript(text: string, defaultZone: string | null): { readonly rule: CalendarRule } | RuleFault {
  const split = splitRule(text);
  const { words, zone } = split;
  if (zone !== null && defaultZone !== null) {
    return { fault: `it ends in a time zone, and there is @timezone ${defaultZone} as well: keep one of the two` };
  }
  if (defaultZone !== null && !isZone(defaultZone)) return { fault: describeZone('@timezone', defaultZone) };
  if (words === '') return { fault: `it is empty: write ${EXAMPLES}` };
  const ending = readEnding(split, zone ?? defaultZone);
  if ('fault' in ending) return ending;
  if (isCronRule(words)) return toRule(words, ending, parseCron(words));
  const start = /^\w+/.exec(words)?.[0] ?? '';
  if (start === 'hourly') return { fault: '', meant: 'every hour' };
  if (/^(?:scheduled|started|finished)$/.test(start)) {
    return { fault: `${start} counts from a job of the queue; for a script write ${EXAMPLES}` };
  }
  if (!isPlainRule(`${words} `) && words !== 'daily' && words !== 'weekly') {
    const meant = correctStart(words);
    const fault = `it begins with ${quote(start === '' ? words : start)}`;
    return meant === null ? { fault: `${fault}; write ${EXAMPLES}` } : { fault, meant };
  }
  const parsed = parseWords(words);
  if ('fault' in parsed) return parsed;
  const { days, clock } = parsed;
  return toRule(words, ending, clock === null ? { ...(days ?? everyDay), times: [0] } : withTimes(days, clock));
}

const EXAMPLES = 'daily at 02:30, weekly on monday at 07:00, every 2 hours or cron’s fields 0 7 * * 1';

type DaysAndTimes = RuleDays & Pick<CalendarRule, 'times' | 'isInterval'>;

const everyDay: RuleDays = { on: { period: 'daily' } };

function withTimes(days: RuleDays | null, clock: ClockTimes): DaysAndTimes | RuleFault {
  const times = timesOfDay(clock);
  if ('fault' in times) return days === null ? times : { fault: times.fault };
  return { ...(days ?? everyDay), times, ...(clock.kind === 'every' && { isInterval: true }) };
}

function toRule(
  words: string,
  { end, ...ending }: Ending,
  parsed: DaysAndTimes | RuleFault,
): { rule: CalendarRule } | RuleFault {
  if ('fault' in parsed) return parsed;
  if (!hasTimes(parsed)) return { fault: 'it never comes, as none of its months has such a day' };
  return { rule: { kind: 'calendar', text: `${words}${end}`, ...parsed, ...ending } };
}

/** As the documentation of Bedrock::Jobs defines them; its code differs. */
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

/** Parses the grammar of Bedrock::Jobs: `HOURLY`, or a base and its modifiers, separated by commas. */
function parseBedrock(text: string): { readonly rule: RepeatRule } | RuleFault {
  const upper = upperCase(text);
  const canned = cannedRules.get(upper);
  if (canned !== undefined) {
    return { rule: { kind: 'moment', text: upper, base: 'finished', modifiers: [canned] } };
  }
  const [first = '', ...others] = splitParts(text);
  const base = bases.get(upperCase(first));
  if (base === undefined) return faultOfBase(text, first);
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

/** Changes only ASCII letters, as Bedrock does: `toUpperCase` turns some other letters into letters of the grammar. */
function upperCase(text: string): string {
  return text.replaceAll(/[a-z]/g, (letter) => letter.toUpperCase());
}

/** Splits as Bedrock does: it drops blanks before a part and empty parts, and keeps blanks after a part. */
function splitParts(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.replace(/^ +/, ''))
    .filter((part) => part !== '');
}

function faultOfBase(text: string, first: string): RuleFault {
  const told = describeBase(text, upperCase(first.trim()));
  if (told !== null) return { fault: told };
  const fault = `it begins with ${quote(first)}`;
  // The caller appends the rest to the suggestion.
  const meant = correctStart(splitRule(text).words);
  if (meant !== null) return { fault, meant };
  const word = nearestName(upperCase(first.trim()), [...bases.keys(), ...cannedRules.keys()]);
  if (word !== null) return { fault: `${fault}; did you mean ${word}?` };
  return {
    fault:
      `${fault}, but a rule begins with SCHEDULED, STARTED or FINISHED, ` +
      'or with every, daily, weekly, monthly or yearly, or is just HOURLY, DAILY or WEEKLY',
  };
}

/** Explains a rule that is nearly right; null: it is not. */
function describeBase(text: string, word: string): string | null {
  if (text.trim() === '') return 'it is empty: write a rule such as FINISHED, +1 HOUR or daily at 10:00';
  if (bases.has(word)) return `there is a blank behind ${word}: remove it`;
  if (cannedRules.has(word)) return `${word} stands alone, without blanks or anything else around it`;
  if (parseModifier(word) !== null) {
    return `it does not say from when: write FINISHED, ${word} or SCHEDULED, ${word}`;
  }
  return null;
}

const addForm = /^(?<count>[+-](?:\d{1,8}(?= SECOND)|\d{1,3})) (?<unit>SECOND|MINUTE|HOUR|DAY|MONTH|YEAR)S?$/;

/** Parses `+1 HOUR`, `START OF DAY`, `WEEKDAY 1`, in upper case; null: `describeModifier` explains why not. */
function parseModifier(text: string): Modifier | null {
  const { count, unit = '' } = addForm.exec(text)?.groups ?? {};
  // `|| 0` turns -0 into 0; some comparisons tell them apart.
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

/** Frequent mistakes, the most specific first, each with its correction. */
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
  [/^[+-]\d+ WEEKS?$/, 'has an unknown unit: 1 week is +7 DAYS'],
  [/^[+-]\d{9,} SECONDS?$/, 'is too large: at most 99999999 seconds'],
  [/^[+-]\d{4,} (YEAR|MONTH|DAY|HOUR|MINUTE)S?$/, 'is too large: at most 999, or several modifiers'],
  [/^[+-]\d+:\d+/, 'is not possible: rules with modifiers are in UTC'],
  [/^(UTC|LOCALTIME)$/, 'is not possible: rules with modifiers are in UTC'],
  [/ (?:BETWEEN|EXCEPT) /, 'is not possible: that needs plain words, such as every 1 hour between 22:00 and 05:00'],
  [/^START OF WEEK$/, 'is not possible: a week begins with WEEKDAY 0 or WEEKDAY 1, START OF DAY'],
  [/^START OF /, 'needs HOUR, DAY, MONTH or YEAR'],
  [/^WEEKDAY/, 'needs a number from 0 (Sunday) to 6 (Saturday)'],
];

/** Says what is wrong in a text that is not a modifier. The sentence begins with its name: "… lacks its sign: …". */
function describeModifier(text: string): string {
  const slip = slips.find(([form]) => form.test(text));
  return slip === undefined ? `is not understood: ${modifierExpected}` : slip[1];
}
