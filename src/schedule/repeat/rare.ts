import { guessTime, readClockTime } from './clock-time.ts';
import { weekdays } from './rule.ts';

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
