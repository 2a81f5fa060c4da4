import { nearestName } from '../../config/near-miss.ts';
import { blameModifier, parseModifier } from './parse-modifier.ts';
import type { BaseMoment, Modifier, ParsedRepeat } from './repeat-rule.ts';
import { blameRule, quote } from './rule-problem.ts';

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
export function parseMomentRule(text: string): ParsedRepeat {
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
