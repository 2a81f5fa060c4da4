import { nearestName } from '../../system/base/suggest.ts';
import { quote, type RuleFault } from './fault.ts';
import type { BaseMoment, Modifier, RepeatRule, StartUnit, Unit } from './rule.ts';
import { correctStart } from './words.ts';

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
export function parseBedrock(text: string): { readonly rule: RepeatRule } | RuleFault {
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
  const word = nearestName(upperCase(first.trim()), [...bases.keys(), ...cannedRules.keys()]);
  if (word !== null) return { fault: `${fault}; did you mean ${word}?` };
  // The caller appends the zone to the suggestion.
  const meant = correctStart(text.replace(/ in \S+\s*$/i, ''));
  if (meant !== null) return { fault, meant };
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
  [/^START OF WEEK$/, 'is not possible: a week begins with WEEKDAY 0 or WEEKDAY 1, START OF DAY'],
  [/^START OF /, 'needs HOUR, DAY, MONTH or YEAR'],
  [/^WEEKDAY/, 'needs a number from 0 (Sunday) to 6 (Saturday)'],
];

/** Says what is wrong in a text that is not a modifier. The sentence begins with its name: "… lacks its sign: …". */
function describeModifier(text: string): string {
  const slip = slips.find(([form]) => form.test(text));
  return slip === undefined ? `is not understood: ${modifierExpected}` : slip[1];
}
