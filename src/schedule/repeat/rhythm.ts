import { DAY_MS } from '../../system/base/values.ts';
import { isDayOf } from './calendar.ts';
import { parseDays } from './days.ts';
import { findName, weekdays } from './names.ts';

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

const fromForm = / (?:from|since|(?:start|beginn)(?:s|ing)?(?: on| from)?) (\d{4}-\d\d-\d\d|\d\S* [a-z]+ \d{4})/;

const timeForm = /(?:^| )(?:at .+|\d{1,2}:\d\d.*)$/;

/**
 * The rule that words for a rhythm of several days, weeks or months mean: `every 2 weeks from 2026-12-07 at 9` for
 * `biweekly on monday at 9`, with the next date that fits. Null: the words name no such rhythm.
 */
export function correctRhythm(text: string, todayMs: number = Date.now()): string | null {
  const words = text
    .trim()
    .toLowerCase()
    .replaceAll(/\b(bi|semi|half)[- ](?=[a-z])/g, '$1');
  const [given = '', givenDate] = fromForm.exec(words) ?? [];
  const [, counted, name = '', rest = ''] = form.exec(words.replace(given, '')) ?? [];
  const singular = name.replace(/s$/, '');
  const [times, word] = rhythms.get(name) ?? rhythms.get(singular) ?? [1, singular];
  const count = times * (counted === undefined ? 1 : (counts.get(counted) ?? Number(counted)));
  const isWeekday = findName(weekdays, word) !== null;
  const unit = isWeekday ? 'week' : (['day', 'week', 'month'] as const).find((each) => each === word);
  if (unit === undefined || (count < 2 && given === '')) return null;
  const [time = ''] = timeForm.exec(rest) ?? [];
  const on = isWeekday ? word : rest.slice(0, rest.length - time.length).replace(/^ ?(?:on )?/, '');
  const from = givenDate ?? nextDate({ unit, count, on }, todayMs);
  if (from === null) return null;
  const isOfDate = givenDate === undefined && /^(?:the )?(?:day )?(?:[a-z]+|\d{1,2}(?:st|nd|rd|th)?)$/.test(on);
  const days = on === '' || isOfDate ? '' : ` on ${on}`;
  return `every ${count === 1 ? '' : `${count} `}${unit}${count === 1 ? '' : 's'} from ${from}${days} at ${time.replace(/^ ?(?:at )?/, '') || '10:00'}`;
}

interface Wanted {
  readonly unit: 'day' | 'week' | 'month';
  readonly count: number;
  /** Empty: any day of a week, the first one of a month. */
  readonly on: string;
}

/** The next date on such a day; null: the words name none. Quarters begin in January, April, July and October. */
function nextDate({ unit, count, on }: Wanted, todayMs: number): string | null {
  const anyDay = unit === 'month' ? 'monthly on 1' : 'daily';
  const days = parseDays(on === '' ? anyDay : `${unit}ly on ${on}`);
  if ('fault' in days) return null;
  const today = Math.floor(todayMs / DAY_MS);
  const ahead = Array.from({ length: 366 }, (_, index) => new Date((today + 1 + index) * DAY_MS));
  const isFirst = (date: Date): boolean => unit !== 'month' || 12 % count !== 0 || date.getUTCMonth() % count === 0;
  const found = ahead.find((date) => isDayOf(days, date.getTime() / DAY_MS) && isFirst(date));
  return found?.toISOString().slice(0, 10) ?? null;
}
