import { parseTierPeriod } from '../../schedule/period.ts';

/** How often a tier runs, as cron can say it. */
export interface CronPeriod {
  readonly unit: CronUnit;
  /** The crontab line fires every so many units; always a divisor of 60 minutes or 24 hours. */
  readonly step: number;
  /** Of those times the tier runs at each, each second, each third …: cron alone cannot say that. */
  readonly nth: number;
}

type CronUnit = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year';

/** What a tier's name means to cron; null for a tier that only runs by hand. */
export function parseCronPeriod(tier: string): CronPeriod | null {
  const period = parseTierPeriod(tier);
  if (period === null) return null;
  switch (period.unit) {
    case 'min':
      return everyMinutes(period.count);
    case 'hours':
      return everyHours(period.count);
    case 'days':
      return everyDays(period.count);
    default:
      return { unit: named[period.unit], step: 1, nth: period.count };
  }
}

/** Their counts are 1. */
const named = { weeks: 'week', months: 'month', years: 'year' } as const;

/** Cron starts a step of 7 afresh each hour: what does not divide it fires more often, sieved. */
function everyMinutes(count: number): CronPeriod {
  if (count % 60 === 0) return everyHours(count / 60);
  const step = greatestCommonDivisor(count, 60);
  return { unit: 'minute', step, nth: count / step };
}

function everyHours(count: number): CronPeriod {
  if (count % 24 === 0) return everyDays(count / 24);
  const step = greatestCommonDivisor(count, 24);
  return { unit: 'hour', step, nth: count / step };
}

/** Not a step of 3 as day of the month: that runs on the 31st and again on the 1st. */
function everyDays(count: number): CronPeriod {
  return { unit: 'day', step: 1, nth: count };
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

const UNIT_SECONDS: Readonly<Record<CronUnit, number>> = {
  minute: 60,
  hour: 3600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
};

/** Seconds from one firing of the crontab line to the next; months and years roughly. */
export function stepSeconds(period: CronPeriod): number {
  return UNIT_SECONDS[period.unit] * period.step;
}

/** Orders tiers from the most to the least frequent. */
export function byFrequency(a: CronPeriod, b: CronPeriod): number {
  return stepSeconds(a) * a.nth - stepSeconds(b) * b.nth;
}
