import { isZone, nearestZone } from '../../system/base/zone.ts';
import { parseBedrock } from './bedrock.ts';
import { hasDays } from './calendar.ts';
import { parseCron } from './cron.ts';
import { found, quote, type RuleFault } from './fault.ts';
import { type CalendarRule, isCronRule, isPlainRule, type RepeatRule } from './rule.ts';
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
  const bare = findBareZone(text);
  const fault =
    bare === null
      ? describeFault(parsed, splitZone(text).zone, parse)
      : describeFault({ fault: 'in stands before a time zone', meant: bare.words }, bare.zone, parse);
  return { matter: `${what} ${quote(text)} is wrong: ${fault}` };
}

/**
 * A suggestion may need a correction, too: `each day at 7` becomes `every day at 7`, which becomes `daily at 07:00`.
 */
const MOST_CORRECTIONS = 4;

/** Suggests the valid rule that was probably meant. If no correction is valid, says what is wrong in the last one. */
function describeFault<Rule>(first: RuleFault, zone: string | null, parse: Parse<Rule>): string {
  let last = first;
  for (let count = 0; last.meant !== undefined && count < MOST_CORRECTIONS; count += 1) {
    const words = correctTimes(last.meant);
    const rule = zone === null ? words : `${words} in ${zone}`;
    const parsed = parse(rule);
    if ('rule' in parsed) return `${first.fault === '' ? '' : `${first.fault}; `}did you mean ${rule}?`;
    last = parsed;
  }
  return last.fault;
}

/** Splits `daily at 10:00 Europe/Berlin`, which lacks the `in`; null: the text does not end in the name of a zone. */
function findBareZone(text: string): { readonly words: string; readonly zone: string } | null {
  const [, words = '', zone = ''] = /^(.*\S) \(?(UTC|[A-Z]\w+\/[\w/]+)\)?$/.exec(text.trim()) ?? [];
  return words === '' || / in$/i.test(words) || !isZone(zone) ? null : { words, zone };
}

function parsePlain(text: string): { readonly rule: RepeatRule } | RuleFault {
  const { words, zone } = splitZone(text);
  if (isCronRule(words)) return toRule(words, zone, parseCron(words));
  const parsed = parseWords(words);
  if ('fault' in parsed) return parsed;
  const { on, clock } = parsed;
  if (on === null && clock?.kind === 'every' && clock.window === null) return delayOf(words, clock, zone !== null);
  if (clock === null) return { fault: 'it needs a time at its end, such as at 10:00' };
  return toRule(words, zone, withTimes(on, clock));
}

function parseForScript(text: string, defaultZone: string | null): { readonly rule: CalendarRule } | RuleFault {
  const { words, zone } = splitZone(text);
  if (zone !== null && defaultZone !== null) {
    return { fault: `it ends in a time zone, and there is @timezone ${defaultZone} as well: keep one of the two` };
  }
  const inZone = zone ?? defaultZone;
  if (defaultZone !== null && !isZone(defaultZone)) return { fault: describeZone('@timezone', defaultZone) };
  if (isCronRule(words)) return toRule(words, inZone, parseCron(words));
  if (words === '') return { fault: `it is empty: write ${EXAMPLES}` };
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
  const { on, clock } = parsed;
  return toRule(words, inZone, clock === null ? { on: on ?? { period: 'daily' }, times: [0] } : withTimes(on, clock));
}

const EXAMPLES = 'daily at 02:30, weekly on monday at 07:00, every 2 hours or cron’s fields 0 7 * * 1';

/** Puts the words in lower case; only the name of the zone keeps its case. */
function splitZone(text: string): { readonly words: string; readonly zone: string | null } {
  const [, words = '', zone = null] = /^(.*?)(?: in (.+))?$/i.exec(text.trim().replaceAll(/\s+/g, ' ')) ?? [];
  return { words: words.toLowerCase().replaceAll(/(?<![\d:])\d:\d\d(?![\d:])/g, (time) => `0${time}`), zone };
}

type DaysAndTimes = Pick<CalendarRule, 'on' | 'times' | 'isInterval'>;

function withTimes(on: CalendarRule['on'] | null, clock: ClockTimes): DaysAndTimes | RuleFault {
  const times = timesOfDay(clock);
  if ('fault' in times) return times;
  return { on: on ?? { period: 'daily' }, times, ...(clock.kind === 'every' && { isInterval: true }) };
}

function toRule(
  words: string,
  zone: string | null,
  parsed: DaysAndTimes | RuleFault,
): { rule: CalendarRule } | RuleFault {
  if ('fault' in parsed) return parsed;
  if (zone !== null && !isZone(zone)) return { fault: describeZone('in', zone) };
  if (!hasDays(parsed.on)) return { fault: 'it never comes, as none of its months has such a day' };
  const text = zone === null ? words : `${words} in ${zone}`;
  return { rule: { kind: 'calendar', text, ...parsed, zone } };
}

function describeZone(word: string, zone: string): string {
  const nearest = nearestZone(zone);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return `${word} needs a time zone such as Europe/Berlin or UTC${found(zone)}${hint}`;
}
