import { nearestName } from '../system/base/suggest.ts';
import { tierPeriodMs } from './period.ts';

/** Common words for a period, and the tier's name for it. */
const words: Readonly<Record<string, string>> = {
  minute: '1min',
  minutely: '1min',
  halfhour: '30min',
  halfhourly: '30min',
  quarterhour: '15min',
  quarterhourly: '15min',
  twicehourly: '30min',
  hour: 'hourly',
  day: 'daily',
  night: 'daily',
  nightly: 'daily',
  midnight: 'daily',
  twicedaily: '12hours',
  week: 'weekly',
  fortnight: '14days',
  fortnightly: '14days',
  biweekly: '14days',
  month: 'monthly',
  bimonthly: '60days',
  quarter: '90days',
  quarterly: '90days',
  year: 'yearly',
  annual: 'yearly',
  annually: 'yearly',
};

const named = ['hourly', 'daily', 'weekly', 'monthly', 'yearly'];

/** A number and a unit as people write them: `5m`, `2hour`, `min15`, `3-days`. */
const units: readonly (readonly [RegExp, (count: number) => string])[] = [
  [/^(?:m|min|mins|minute|minutes)?$/, (count) => `${count}min`],
  [/^(?:h|hr|hrs|hour|hours|hourly)$/, (count) => (count === 1 ? 'hourly' : `${count}hours`)],
  [/^(?:d|day|days|daily)$/, (count) => (count === 1 ? 'daily' : `${count}days`)],
  [/^(?:w|wk|week|weeks|weekly)$/, (count) => (count === 1 ? 'weekly' : `${7 * count}days`)],
  [/^(?:mo|month|months|monthly)$/, (count) => (count === 1 ? 'monthly' : `${30 * count}days`)],
  [/^(?:y|year|years|yearly)$/, (count) => (count === 1 ? 'yearly' : '')],
];

/**
 * The tier that the name of a folder was probably meant to be: `hourly` for `houry`, `15min` for `15mins`. Null if the
 * name is a tier already, or resembles none: such a folder is run by hand.
 */
export function guessPeriodName(name: string): string | null {
  if (tierPeriodMs(name) !== null) return null;
  const plain = name
    .toLowerCase()
    .replace(/^(?:cron\.|@)|\.d$/g, '')
    .replace(/[\s_.-]+/g, '')
    .replace(/^(?:every|each|once|per)(?:an|a)?(?=[\da-z])/, '');
  const guess = words[plain.replace(/s$/, '')] ?? words[plain] ?? guessCounted(plain) ?? guessSpelling(plain);
  return guess !== null && tierPeriodMs(guess) !== null ? guess : null;
}

function guessCounted(plain: string): string | null {
  const [, before = '', digits, after = ''] =
    /^((?:min|hour|day|week|month)[a-z]*(?<!ly))?(\d{1,6})([a-z]*)$/.exec(plain) ?? [];
  if (digits === undefined || (before !== '' && after !== '')) return null;
  // A larger number without a unit does not mean minutes; it may be a year.
  if (before + after === '' && Number(digits) > 90) return null;
  const unit = units.find(([form]) => form.test(before + after));
  return unit?.[1](Number(digits)) ?? null;
}

/** Accepts a misspelling, which begins with the same letter, not another word. */
function guessSpelling(plain: string): string | null {
  const alike = named.filter((each) => each[0] === plain[0] && plain.length >= each.length - 2);
  return nearestName(plain, alike);
}

/** Explains why cron never runs such a folder and which tier was probably meant; null: nothing to explain. */
export function describeMisnamed(name: string): string | null {
  const guess = guessPeriodName(name);
  return guess === null ? null : `not a schedule name, so cron never runs it; did you mean ${guess}?`;
}
