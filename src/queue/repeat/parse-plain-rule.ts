import { DAY_MS, fixedUnitMs } from './apply-modifiers.ts';
import { parseCalendarDay } from './parse-calendar-day.ts';
import type { FixedUnit, ParsedRepeat } from './repeat-rule.ts';
import { blameRule, quote } from './rule-problem.ts';
import { isZone, nearestZone } from './time-zone.ts';

/** Whether a text is meant to be a rule in plain words: `DAILY` alone is one of Bedrock's. */
export function isPlainRule(text: string): boolean {
  return /^\s*(?:every\b|(?:daily|weekly|monthly|yearly)\s+\S|(?:monthly|yearly)\s*$)/i.test(text);
}

/** `every 90 seconds`, `daily at 10:00`, `monthly on last at 00:00 in Europe/Berlin`. */
export function parsePlainRule(text: string): ParsedRepeat {
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
