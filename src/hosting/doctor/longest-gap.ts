type Numbers = ReadonlySet<number>;

/** What the five fields of a crontab line name. */
export interface CronMoments {
  readonly minutes: Numbers;
  readonly hours: Numbers;
  readonly days: Numbers;
  readonly months: Numbers;
  /** Sunday is 0 or 7. */
  readonly weekdays: Numbers;
  /** Cron takes a day that either field names, unless one of them begins with a star. */
  readonly needsBothDays: boolean;
}

const MINUTE_MS = 60_000;
const MINUTES_OF_DAY = 24 * 60;

/** After these 28 years dates fall on the same weekdays again. */
const FIRST_DAY = Date.UTC(2001, 0, 1);
const DAYS_OF_CYCLE = 28 * 365 + 7;

/** The longest time between two moments that they name, as if no clock ever changed; null: there are none. */
export function findLongestGapMs(at: CronMoments): number | null {
  const days = listDays(at);
  if (days.length === 0) return null;
  const gapDays = longestStep(days, DAYS_OF_CYCLE);
  const moments = [...at.hours].flatMap((hour) =>
    [...at.minutes].map((minute) => hour * 60 + minute),
  );
  return longestStep(moments, gapDays * MINUTES_OF_DAY) * MINUTE_MS;
}

function listDays({ days, months, weekdays, needsBothDays }: CronMoments): number[] {
  return Array.from({ length: DAYS_OF_CYCLE }, (_, day) => day).filter((day) => {
    const date = new Date(FIRST_DAY + day * MINUTES_OF_DAY * MINUTE_MS);
    const isDay = days.has(date.getUTCDate());
    const isWeekday = weekdays.has(date.getUTCDay()) || weekdays.has(date.getUTCDay() || 7);
    const isNamed = needsBothDays ? isDay && isWeekday : isDay || isWeekday;
    return isNamed && months.has(date.getUTCMonth() + 1);
  });
}

/** From each to the next, and from the last to the first of the next cycle. */
function longestStep(numbers: readonly number[], cycle: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const [first = 0] = sorted;
  return Math.max(...sorted.map((each, index) => (sorted[index + 1] ?? first + cycle) - each));
}
