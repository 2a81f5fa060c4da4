import { UsageError } from '../config/usage-error.ts';
import { byFrequency, type CronPeriod, parseCronPeriod } from './cron-period.ts';

/** What a crontab line calls, and how often. */
export interface CronCall {
  readonly words: readonly [name: string, ...args: string[]];
  readonly period: CronPeriod;
}

/** Each tier by itself, from the most to the least frequent. */
export function tierCalls(tiers: readonly string[]): CronCall[] {
  return [...new Set(tiers)]
    .map((tier): CronCall => ({ words: [tier], period: periodOf(tier) }))
    .sort((a, b) => byFrequency(a.period, b.period) || (a.words[0] < b.words[0] ? -1 : 1));
}

/** All tiers at once, as often as the most frequent one asks for. */
export function dueCall(tiers: readonly string[], args: readonly string[]): CronCall {
  const [period] = tiers.map(periodOf).sort(byFrequency);
  if (period === undefined) throw new Error('There is no tier to be due.');
  return { words: ['due', ...args], period };
}

/** A worker of the queue that is about to end when the next one comes. */
export function workCall(everyMinutes: number): CronCall {
  return { words: ['work', '--for', lifeOf(everyMinutes)], period: periodOf(`${everyMinutes}min`) };
}

/** `55s` of a minute, `14m` of a quarter of an hour: time to end its last job. */
function lifeOf(everyMinutes: number): string {
  const seconds = everyMinutes * 60 - Math.min(60, everyMinutes * 5);
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}

function periodOf(tier: string): CronPeriod {
  const period = parseCronPeriod(tier);
  if (period !== null) return period;
  throw new UsageError(
    `The tier ${JSON.stringify(tier)} has no period, so cron cannot run it: expected a name like ` +
      '15min, hourly, 2hours, daily, 3days, weekly, monthly or yearly.',
  );
}
