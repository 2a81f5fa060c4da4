import { parseTierPeriod, tierPeriodMs } from '../../../schedule/period.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Every one of them divides an hour, so that cron itself can say it. */
const MINUTES = [30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1];

/** From the coarsest on. A pass of more days would begin on another day. */
const COARSE = ['daily', '12hours', '8hours', '6hours', '4hours', '3hours', '2hours', 'hourly'];

/** Hosts that limit how often cron may call allow this. */
export const FOR_TIMES_OF_DAY = '15min';

/** A command that first waits longer than this at random does not care when it runs. */
const LONG_WAIT_SECONDS = 300;

/** What decides about the tier of a line. */
export interface TierNeeds {
  /** The shortest time between two of its times. */
  readonly gapMs: number;
  /** The last of its times on a day, in minutes from midnight. */
  readonly lastMinute: number;
  /** How long it waits at random before it does anything. */
  readonly randomStartSeconds: number;
}

/**
 * The tier of a line, by the shortest gap between its times. Within the hour it is the coarsest that has a pass for each
 * time. A time of the day was chosen by somebody: such a line goes where a pass comes soon after it. What first waits for
 * long at random would hold up the others there, and goes where passes are rare. Each has a pass between the last time
 * of a day and midnight: a line for the 31st, or for Fridays, would run on the next day.
 */
export function chooseTier(schedule: string, { gapMs, lastMinute, randomStartSeconds }: TierNeeds): string {
  if (schedule === '@reboot') return FOR_TIMES_OF_DAY;
  const mayBe = (tier: string) => {
    const periodMs = tierPeriodMs(tier) ?? 0;
    return periodMs <= gapMs && lastMinute * MINUTE_MS + periodMs <= DAY_MS;
  };
  const candidates = [
    ...(randomStartSeconds > LONG_WAIT_SECONDS ? COARSE : isEveryHour(schedule) ? ['hourly'] : []),
    ...(gapMs < HOUR_MS ? [] : [FOR_TIMES_OF_DAY]),
    ...MINUTES.filter((minutes) => gapMs < HOUR_MS || minutes < 15).map((minutes) => `${minutes}min`),
  ];
  return candidates.find(mayBe) ?? '1min';
}

/** Whether nearly each pass of its tier runs the script. */
export function runsInEachPass(tier: string, gapMs: number): boolean {
  return gapMs < 2 * (tierPeriodMs(tier) ?? 0);
}

function isEveryHour(schedule: string): boolean {
  return /^\d+ (?:\*|\*\/1|0-23) \* \* \*$/.test(schedule);
}

/** How long after its time a script of a tier may begin: "15 minutes"; null: at most a minute. */
export function describeLateness(tier: string): string | null {
  const { count, unit } = parseTierPeriod(tier) ?? { count: 1, unit: 'min' };
  if (unit === 'min') return count === 1 ? null : `${count} minutes`;
  const name = unit === 'hours' ? 'hour' : unit === 'days' ? 'day' : 'week';
  return count === 1 ? `${name === 'hour' ? 'an' : 'a'} ${name}` : `${count} ${name}s`;
}

const LEAST_HOURS = 1;
const MOST_HOURS = 6;

/** Cron ends nothing: a limit that what used to work does not reach, and that what hangs does. */
export function chooseTimeout(gapMs: number, waitSeconds: number): string {
  const hours = Math.min(MOST_HOURS, Math.max(LEAST_HOURS, Math.floor(gapMs / HOUR_MS)));
  return `${hours + Math.ceil(waitSeconds / 3600)}h`;
}
