import { DAY_MS } from '../../../system/base/values.ts';
import type { Rhythm } from '../rule.ts';
import { isDayOf } from '../rule-days.ts';
import { parseDays, readOrdinal } from './days.ts';
import { findName, weekdays } from './names.ts';

/** Words for a rhythm of several weeks or months. */
const rhythms = [
  [/^(?:biweekly|fortnight(?:ly|s)?)$/, 2, 'week'],
  [/^bimonthly$/, 2, 'month'],
  [/^quarter(?:ly|s)?$/, 3, 'month'],
  [/^(?:halfyear(?:ly|s)?|biannually|semiannually)$/, 6, 'month'],
] as const;

const form =
  /^(?:every |each |once an? |once every )?(?:(\d{1,3}(?:st|nd|rd|th)?|other|second|third|fourth) ?)?([a-z]+)(?: (.*))?$/;

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
  const [, times, word] = rhythms.find(([named]) => named.test(name)) ?? [null, 1, name.replace(/s$/, '')];
  const counts = counted === 'other' ? 2 : (readOrdinal(counted ?? 'first') ?? Number(counted));
  const count = times * counts;
  const isWeekday = findName(weekdays, word) !== null;
  const unit = isWeekday ? 'week' : (['day', 'week', 'month'] as const).find((each) => each === word);
  if (unit === undefined || (count < 2 && given === '')) return null;
  const [time = ''] = timeForm.exec(rest) ?? [];
  const on = isWeekday ? word : rest.slice(0, rest.length - time.length).replace(/^ ?(?:on )?/, '');
  const from = givenDate ?? nextDate({ unit, count, on }, todayMs);
  if (from === null) return null;
  const isOfDate = givenDate === undefined && /^(?:the )?(?:day )?(?:[a-z]+|\d{1,2}(?:st|nd|rd|th)?)$/.test(on);
  const days = on === '' || isOfDate ? '' : ` on ${on}`;
  const units = count === 1 ? unit : `${count} ${unit}s`;
  return `every ${units} from ${from}${days} at ${time.replace(/^ ?(?:at )?/, '') || '10:00'}`;
}

interface Wanted extends Omit<Rhythm, 'from'> {
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
