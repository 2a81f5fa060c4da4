import { isZone, nearestZone } from '../../../system/base/zone.ts';
import type { CalendarRule } from '../rule.ts';
import { parseWindow } from '../window.ts';
import { parseDays } from './days.ts';
import { type RuleFault, writeFound } from './fault.ts';
import { weekdays } from './names.ts';

/** The parts of a rule. Null: it has none. */
export interface SplitRule {
  /** Days and times, in lower case. */
  readonly words: string;
  readonly except: string | null;
  readonly between: string | null;
  readonly zone: string | null;
  /** The last three, as they follow the words. */
  readonly end: string;
}

const partForm =
  /(?:,? but)?(?: only)? (except|between|in) (.+?)(?=(?:,? but)?(?: only)? (?:except|between|in|at|every|on|from) |$)/gi;

/** Splits off `except holidays.txt`, `between 22:00 and 05:00` and `in Europe/Berlin`, wherever they stand. */
export function splitRule(text: string): SplitRule {
  const line = text.trim().replaceAll(/\s+/g, ' ');
  const parts = [...line.matchAll(partForm)];
  const read = (name: string, joint: string): string | null => {
    const found = parts.filter(([, each]) => each?.toLowerCase() === name).map(([, , part = '']) => part);
    return found.length === 0 ? null : found.join(joint);
  };
  const between = read('between', ' between ');
  const split = {
    words: padTimes(line.replaceAll(partForm, '').toLowerCase()),
    except: read('except', ' and ')?.replace(/^(?:on|for) /i, '') ?? null,
    between: between === null ? null : padTimes(between.toLowerCase()),
    zone: read('in', ' in '),
  };
  return { ...split, end: writeEnd(split) };
}

/** `9:05` becomes `09:05`. */
function padTimes(words: string): string {
  return words.replaceAll(/(?<![\d:])\d:\d\d(?![\d:])/g, (time) => `0${time}`);
}

function writeEnd({ except, between, zone }: Omit<SplitRule, 'words' | 'end'>): string {
  const parts = Object.entries({ except, between, in: zone });
  return parts.map(([name, part]) => (part === null ? '' : ` ${name} ${part}`)).join('');
}

/** The part of a rule behind its days and times. */
export type Ending = Pick<CalendarRule, 'zone' | 'limits'> & Pick<SplitRule, 'end'>;

export function readEnding(split: SplitRule, zone: string | null): Ending | RuleFault {
  const end = writeEnd({ ...split, zone });
  if (zone !== null && !isZone(zone)) return { fault: describeZone('in', zone) };
  if (split.except === null && split.between === null) return { zone, end };
  const except = split.except?.split(/ ?, ?(?:and )?| and /) ?? [];
  const wrong = except.find((file) => !/^\S*[./]\S*$/.test(file));
  if (wrong !== undefined) return faultOfExcept(split, wrong);
  const between = split.between === null ? null : parseWindow(split.between);
  if (between === null || 'from' in between) return { zone, limits: { except, between }, end };
  const { fault, meant } = between;
  return meant === undefined ? { fault } : { fault, meant: split.words, end: writeEnd({ ...split, between: meant }) };
}

/** `daily at 10:00 except sunday` is meant as a rule of the other days. */
function faultOfExcept(split: SplitRule, wrong: string): RuleFault {
  const fault = `except needs a file of dates such as except holidays.txt${writeFound(wrong)}`;
  const text = (split.except ?? '').toLowerCase();
  const named = parseDays(/^week(?:end|day)s$/.test(text) ? text : `weekly on ${text}`);
  if ('fault' in named || named.on.period !== 'weekly' || !split.words.startsWith('daily')) return { fault };
  const { weekdays: left } = named.on;
  const others = weekdays.filter((_, index) => !left.includes(index + 1)).map((name) => name.slice(0, 3));
  const meant = split.words.replace('daily', `weekly on ${others.join(', ')}`);
  return { fault, meant, end: writeEnd({ ...split, except: null }) };
}

export function describeZone(word: string, zone: string): string {
  const nearest = nearestZone(zone);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `${word} needs a time zone such as Europe/Berlin or UTC${writeFound(zone)}${hint}`;
}
