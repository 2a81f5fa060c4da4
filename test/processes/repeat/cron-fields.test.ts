import { describe, expect, test } from 'vitest';
import { latestTime, nextTimeAfter } from '../../../src/schedule/repeat/calendar.ts';
import { at, calendarOf } from '../../unit/repeat/support.ts';

const MINUTE_MS = 60_000;
const [fromMs, untilMs] = [at('2027-01-01'), at('2029-01-01')];

/** A minute of the two years, as the clocks of a zone show it: its wall time as if that were UTC. */
interface Minute {
  readonly atMs: number;
  readonly wallMs: number;
}

/** Minute by minute, by what `Intl` says; no zone here changes its clocks but at a half of an hour. */
function walkMinutes(zone: string): Minute[] {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  const minutes: Minute[] = [];
  for (let halfMs = fromMs; halfMs < untilMs; halfMs += 30 * MINUTE_MS) {
    const [day, month, year, hour, minute] = format.format(halfMs).match(/\d+/g)?.map(Number) ?? [];
    const wallMs = Date.UTC(year as number, (month as number) - 1, day, hour, minute);
    for (let offsetMs = 0; offsetMs < 30 * MINUTE_MS; offsetMs += MINUTE_MS) {
      minutes.push({ atMs: halfMs + offsetMs, wallMs: wallMs + offsetMs });
    }
  }
  return minutes;
}

const names: Readonly<Record<string, number>> = { jan: 1, jul: 7, sun: 0, mon: 1, wed: 3, fri: 5 };

/** As the manual page crontab(5) says it. */
function valuesOf(field: string, low: number, high: number): ReadonlySet<number> {
  const values = field.split(',').flatMap((item) => {
    const [range = '', step = '1'] = item.split('/');
    const [first = '', last = first] = range === '*' ? [String(low), String(high)] : range.split('-');
    const [from, to] = [first, last].map((word) => names[word] ?? Number(word)) as [number, number];
    return Array.from(
      { length: Math.floor((to - from) / Number(step)) + 1 },
      (_, index) => from + index * Number(step),
    );
  });
  return new Set(values);
}

/** Whether a wall time is one of theirs. */
function compile(fields: string): (wallMs: number) => boolean {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields.split(' ');
  const [minutes, hours] = [valuesOf(minute, 0, 59), valuesOf(hour, 0, 23)];
  const [days, months, weekdays] = [valuesOf(day, 1, 31), valuesOf(month, 1, 12), valuesOf(weekday, 0, 7)];
  const needsBoth = day.startsWith('*') || weekday.startsWith('*');
  return (wallMs) => {
    const date = new Date(wallMs);
    if (!minutes.has(date.getUTCMinutes()) || !hours.has(date.getUTCHours())) return false;
    const isDay = days.has(date.getUTCDate());
    const isWeekday = weekdays.has(date.getUTCDay()) || weekdays.has(date.getUTCDay() || 7);
    return months.has(date.getUTCMonth() + 1) && (needsBoth ? isDay && isWeekday : isDay || isWeekday);
  };
}

/** What Vixie's cron does: with a star in minute or hour whatever the clocks show, else each time once. */
function expectedTimes(fields: string, minutes: readonly Minute[]): number[] {
  const fits = compile(fields);
  const [minute = '', hour = ''] = fields.split(' ');
  if (minute.startsWith('*') || hour.startsWith('*')) {
    return minutes.filter(({ wallMs }) => fits(wallMs)).map(({ atMs }) => atMs);
  }
  const times = new Set<number>();
  let shownMs = (minutes[0] as Minute).wallMs - MINUTE_MS;
  for (const { atMs, wallMs } of minutes) {
    for (; shownMs < wallMs; shownMs += MINUTE_MS) {
      if (fits(shownMs + MINUTE_MS)) times.add(atMs);
    }
  }
  return [...times];
}

const fields = [
  '0 7 * * 1',
  '*/15 0-4 * * sun',
  '30 2 * * *',
  '*/20 2 * * *',
  '5,35 1-3 * * *',
  '15 */6 * * *',
  '0 0 1,15 * mon',
  '0 0 */2 * mon',
  '0 12 13 * */2',
  '30 4 31 * *',
  '0 6 29 2 *',
  '10-50/20 8-17/3 * jan,jul mon-fri',
  '0 22 * * 5-7',
  '0 3 * * 7',
  '0 3 * * 0,3',
  '59 23 28-31 * *',
];

describe.each(['UTC', 'Europe/Berlin', 'Australia/Lord_Howe', 'America/Havana'])('in %s', (zone) => {
  const minutes = walkMinutes(zone);

  test.each(fields)('%s has the times that cron finds minute by minute', async (text) => {
    const rule = calendarOf(`${text} in ${zone}`);
    const expected = expectedTimes(text, minutes).filter((atMs) => atMs > fromMs && atMs < untilMs);
    const times: number[] = [];
    for (let last = fromMs; ; ) {
      last = (await nextTimeAfter(rule, last)) ?? untilMs;
      if (last >= untilMs) break;
      times.push(last);
      if (times.length % 100 === 1) expect(await latestTime(rule, { afterMs: last - 1, upToMs: last })).toBe(last);
    }
    expect(times).toEqual(expected);
  });
});
