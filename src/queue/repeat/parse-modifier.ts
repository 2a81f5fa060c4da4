import type { CalendarUnit, FixedUnit, Modifier } from './repeat-rule.ts';

type ReadModifier = (match: RegExpExecArray) => Modifier;

/** Bedrock's grammar; what is read is in upper case. */
const forms: readonly (readonly [RegExp, ReadModifier])[] = [
  [/^([+-]\d{1,8}) (SECOND)S?$/, readAdd],
  [/^([+-]\d{1,3}) (YEAR|MONTH|DAY|HOUR|MINUTE)S?$/, readAdd],
  [/^START OF (HOUR|DAY|MONTH|YEAR)$/, readStart],
  [/^WEEKDAY ([0-6])$/, ([, day]) => ({ kind: 'weekday', weekday: Number(day) })],
];

/** `+1 HOUR`, `START OF DAY`, `WEEKDAY 1`; null for what is none, which `blameModifier` explains. */
export function parseModifier(text: string): Modifier | null {
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
export function blameModifier(text: string): string {
  const slip = slips.find(([form]) => form.test(text));
  return slip === undefined ? `is not understood: ${expected}` : slip[1];
}
