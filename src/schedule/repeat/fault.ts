import { nearestName } from '../../system/base/suggest.ts';
import { weekdays } from './names.ts';

/** Says what is wrong in a rule, without the rule itself. The text follows "The repeat rule … is wrong: ". */
export interface RuleFault {
  readonly fault: string;
  /** The whole rule that was probably meant; it may contain another fault. */
  readonly meant?: string;
}

/** The end of a sentence that says what was expected: what was found, and the name that was probably meant. */
export function writeFound(words: string, names: readonly string[] = []): string {
  const nearest = words === '' ? null : nearestName(words, names);
  const hint = nearest === null ? '' : `; did you mean ${nearest}?`;
  return words === '' ? '' : `, found ${quote(words)}${hint}`;
}

const LONGEST_SHOWN = 80;

/** Quotes the text as JSON, so that blanks and control characters show. A long text is cut. */
export function quote(text: string): string {
  const letters = [...text];
  const shown = letters.length <= LONGEST_SHOWN ? text : `${letters.slice(0, LONGEST_SHOWN).join('')}…`;
  return JSON.stringify(shown);
}

const timeForm = /^([01]?\d|2[0-3]):([0-5]\d)$/;

/** The minute of the day of `10:00`; null: not a time. */
export function readClockTime(word: string): number | null {
  const [, hour, minute] = timeForm.exec(word) ?? [];
  return hour === undefined ? null : Number(hour) * 60 + Number(minute);
}

/** `08:00` for `8am`, `8`, `0800`; null: no guess. */
export function guessTime(word: string): string | null {
  if (word === 'noon' || word === 'midnight') return word === 'noon' ? '12:00' : '00:00';
  const [, hour, minute = '00', half] = /^(\d{1,2}?)[:.h]?(\d\d)? ?([ap]m)?$/.exec(word) ?? [];
  if (hour === undefined) return null;
  const hours = half === undefined ? Number(hour) : (Number(hour) % 12) + (half === 'pm' ? 12 : 0);
  const time = `${String(hours).padStart(2, '0')}:${minute}`;
  return readClockTime(time) === null ? null : time;
}

/** Words for a rhythm of several weeks or months. */
const rhythms: ReadonlyMap<string, readonly [count: number, unit: 'week' | 'month']> = new Map([
  ['biweekly', [2, 'week']],
  ['fortnight', [2, 'week']],
  ['fortnightly', [2, 'week']],
  ['bimonthly', [2, 'month']],
  ['quarter', [3, 'month']],
  ['quarterly', [3, 'month']],
  ['halfyear', [6, 'month']],
  ['halfyearly', [6, 'month']],
  ['biannually', [6, 'month']],
  ['semiannually', [6, 'month']],
]);

const counts: ReadonlyMap<string, number> = new Map([
  ...(['other', 'second', '2nd'] as const).map((word) => [word, 2] as const),
  ...(['third', '3rd'] as const).map((word) => [word, 3] as const),
  ...(['fourth', '4th'] as const).map((word) => [word, 4] as const),
]);

const form =
  /^(?:every |each |once an? |once every )?(?:(\d{1,3}|other|second|2nd|third|3rd|fourth|4th) ?)?([a-z]+)(?: (.*))?$/;

/**
 * The rule that runs as often as words for several days, weeks or months: `every 2 weeks` for `biweekly on monday`, `0
 * 3 1 *\/3 *` for `quarterly at 03:00`. Null: the words name no such rhythm, or no rule has it.
 */
export function correctRhythm(text: string): string | null {
  const words = text
    .trim()
    .toLowerCase()
    .replaceAll(/\b(bi|semi|half)[- ](?=[a-z])/g, '$1');
  const [, counted, name = '', rest = ''] = form.exec(words) ?? [];
  const count = counted === undefined ? null : (counts.get(counted) ?? Number(counted));
  const [times, unit] = rhythms.get(name) ?? rhythms.get(name.replace(/s$/, '')) ?? [1, name.replace(/s$/, '')];
  const total = times * (count ?? 1);
  if (total < 2 || /^every \d+ (?:day|week)s?$/.test(words)) return null;
  if (unit === 'month') return monthFields(total, rest);
  const isWeek = unit === 'week' || weekdays.some((day) => unit.length >= 3 && day.startsWith(unit));
  if (!isWeek && unit !== 'day') return null;
  return `every ${total} ${isWeek ? 'weeks' : 'days'}`;
}

/**
 * Cron's fields for every `count` months; null if the months differ from year to year or the day is not in each month.
 */
function monthFields(count: number, rest: string): string | null {
  const [, day = '1', word = '00:00'] =
    /^(?:on (?:the |day )?(\d{1,2})(?:st|nd|rd|th)?(?: |$))?(?:at )?(.+)?$/.exec(rest) ?? [];
  const time = readClockTime(guessTime(word) ?? '');
  if (12 % count !== 0 || time === null || Number(day) < 1 || Number(day) > 28) return null;
  return `${time % 60} ${Math.floor(time / 60)} ${Number(day)} */${count} *`;
}
