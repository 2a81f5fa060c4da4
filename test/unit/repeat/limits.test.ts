import fc from 'fast-check';
import { Temporal } from 'temporal-polyfill';
import { describe, expect, test } from 'vitest';
import { calendarSeries, latestTime, nextTimeAfter, shortestGapMs } from '../../../src/schedule/repeat/calendar.ts';
import { parseRepeat } from '../../../src/schedule/repeat/grammar/parse.ts';
import { describeDates } from '../../../src/schedule/repeat/limits.ts';
import { keepRulesAt } from '../../../src/schedule/repeat/place.ts';
import { type CalendarRule, explainRepeat, formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { initialTime, listTimes, planNext } from '../../../src/schedule/repeat/series.ts';
import { DAY_MS, MINUTE_MS } from '../../../src/system/base/values.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { tries } from '../../support/tries.ts';
import { at, calendarOf, plan, problemOf, ranAt, ruleOf } from './support.ts';

/** Sets the root of all rules to one with `holidays.txt` and `closed.txt`. */
function keepDates(holidays: string, closed = '2026-12-01'): void {
  const root = makeTemporaryRoot({ 'holidays.txt': holidays, 'closed.txt': closed });
  keepRulesAt({ root, allowUnsafe: false });
}

/** The first times after 2026-11-30 12:00, a Monday. */
async function timesOf(text: string, count: number): Promise<string[]> {
  const { times } = await listTimes(ruleOf(text), ranAt(at('2026-11-30 12:00')), count);
  return times.map((time) => formatInstant(time).slice(5, 16));
}

describe('a rule gives these times:', () => {
  test.each([
    ['every 2 weeks from 2026-11-30 at 09:00', ['12-14 09:00', '12-28 09:00']],
    ['every 2 weeks from 2026-12-02 on monday and friday at 09:00', ['12-04 09:00', '12-14 09:00', '12-18 09:00']],
    ['every 10 days from 1 december 2026 at 09:00 and 15:00', ['12-01 09:00', '12-01 15:00', '12-11 09:00']],
    ['every week from 9th dec 2026 at 09:00', ['12-09 09:00', '12-16 09:00']],
    ['every 2 months from 2026-12-31 at 09:00', ['12-31 09:00', '02-28 09:00', '04-30 09:00']],
    ['every 3 months from 2026-12-01 on the last friday at 09:00', ['12-25 09:00', '03-26 09:00']],
    ['every 2 years from 2027-03-01 at 09:00', ['03-01 09:00', '03-01 09:00']],
    ['every 2 weeks from 2026-11-30 every 6 hours from 09:00 to 17:00', ['11-30 15:00', '12-14 09:00']],
    ['monthly on the last working day at 18:00', ['11-30 18:00', '12-31 18:00', '01-29 18:00']],
    ['monthly on the first working day at 18:00', ['12-01 18:00', '01-01 18:00', '02-01 18:00']],
    ['monthly on the 3rd working day at 18:00', ['12-03 18:00', '01-05 18:00']],
    ['monthly on the second last working day at 18:00', ['12-30 18:00', '01-28 18:00']],
    ['monthly on the 2nd to last friday at 18:00', ['12-18 18:00', '01-22 18:00']],
    ['monthly on the second last day at 18:00', ['12-30 18:00', '01-30 18:00', '02-27 18:00']],
    ['monthly on the first and third friday at 18:00', ['12-04 18:00', '12-18 18:00', '01-01 18:00']],
    ['monthly on the last working day at 18:00 except holidays.txt', ['11-30 18:00', '12-23 18:00', '01-28 18:00']],
    ['monthly on the first working day at 18:00 except holidays.txt', ['12-01 18:00', '01-04 18:00']],
    ['daily at 10:00 except holidays.txt', ['12-01 10:00', '12-02 10:00']],
    ['daily at 10:00 except holidays.txt and closed.txt', ['12-02 10:00', '12-03 10:00']],
    ['0 7 25-31 * * except holidays.txt', ['01-25 07:00', '01-26 07:00', '01-27 07:00', '01-28 07:00', '01-30 07:00']],
    ['weekly on thursday at 10:00 except holidays.txt', ['12-03 10:00', '12-10 10:00', '12-17 10:00', '01-07 10:00']],
    ['daily at 10:00 between 22:00 and 05:00', ['11-30 22:00', '12-01 22:00']],
    ['daily at 10:00, 12:30 and 23:00 between 22:00 and 05:00', ['11-30 22:00', '11-30 23:00', '12-01 22:00']],
    ['0 */3 * * * between 09:00 and 17:00', ['11-30 15:00', '12-01 09:00', '12-01 12:00']],
    // The window of the day before opens on a day that is excepted, so the time moves on.
    ['weekly on wednesday at 12:00 except holidays.txt between 01:00 and 05:00', ['12-03 01:00', '12-10 01:00']],
    ['yearly on 23 december at 12:00 except holidays.txt between 01:00 and 05:00', ['01-02 01:00', '12-24 01:00']],
    [
      'every 2 hours between 22:00 and 05:00',
      ['11-30 22:00', '12-01 00:00', '12-01 02:00', '12-01 04:00', '12-01 22:00'],
    ],
    ['every 10 hours except closed.txt', ['11-30 22:00', '12-02 00:00', '12-02 10:00']],
    ['every 10 hours except closed.txt between 09:00 and 17:00', ['12-02 09:00', '12-03 09:00']],
  ])('%s', async (text, expected) => {
    keepDates('2026-12-24 to 2026-12-31 closed\n2027-01-01\n2027-01-29');
    expect(await timesOf(`${text} in UTC`, expected.length)).toEqual(expected);
  });
});

test('a rule that its dates leave no time is wrong', () => {
  keepDates('12-24 to 12-25', '2026-01-01 to 2026-12-31');
  const wrong = (text: string) => describeDates('The repeat rule', ruleOf(text));
  expect(wrong('yearly on 25 december at 10:00 except holidays.txt')).toBe(
    'The repeat rule "yearly on 25 december at 10:00 except holidays.txt" is wrong: ' +
      'it never comes, as all of its days are in holidays.txt',
  );
  // This night ends on a day that is left.
  expect(wrong('yearly on 25 december every 6 hours from 22:00 to 05:00 except holidays.txt')).toBeNull();
  expect(wrong('monthly on the last working day at 10:00 except closed.txt')).toBeNull();
  expect(wrong('every 2 hours except holidays.txt and closed.txt')).toBeNull();
});

describe('a rule is explained:', () => {
  test.each([
    ['every 2 weeks from 2026-11-30 at 09:00', 'every 2 weeks from 30 November 2026 on Monday at 09:00 in UTC'],
    ['every 3 days from 1 dec 2026 at 09:00', 'every 3 days from 1 December 2026 at 09:00 in UTC'],
    [
      'every month from 2026-12-01 on the last friday at 09:00',
      'every month from 1 December 2026 on the last Friday at 09:00 in UTC',
    ],
    [
      'monthly on the second last working day at 18:00',
      'on the second last working day of every month at 18:00 in UTC',
    ],
    [
      'monthly on the 11th and 13th workday at 18:00',
      'on the 11th and 13th working day of every month at 18:00 in UTC',
    ],
    ['daily at 10:00 except a.txt and b/c', 'every day at 10:00 in UTC, but not on the dates in a.txt and b/c'],
    [
      '0 */3 * * * between 22:00 and 05:00',
      'every 3 hours in UTC, but only between 22:00 and 05:00: any other time comes at 22:00',
    ],
    [
      'daily at 10:00 except a.txt between 22:00 and 05:00',
      'every day at 10:00 in UTC, but not on the dates in a.txt, and only between 22:00 and 05:00: any other time comes at 22:00',
    ],
    [
      'every 2 hours between 22:00 and 05:00',
      'again 2 hours after the time at which it finished, but only between 22:00 and 05:00 in UTC: any other time comes at 22:00',
    ],
    [
      'every 2 hours except a.txt',
      'again 2 hours after the time at which it finished, but not on the dates in a.txt in UTC',
    ],
  ])('%s', (text, explanation) => {
    expect(explainRepeat(ruleOf(`${text} in UTC`))).toBe(`Runs ${explanation}.`);
  });
});

describe('a rule is stored in one order, with its words:', () => {
  test.each([
    [
      'Daily at 9:00 Between 9:00 and 17:00 EXCEPT Days/Off.txt',
      'daily at 09:00 except Days/Off.txt between 09:00 and 17:00',
    ],
    ['daily except a.txt at 10:00', 'daily at 10:00 except a.txt'],
    ['daily at 10:00, but only between 22:00 and 05:00', 'daily at 10:00 between 22:00 and 05:00'],
    ['daily at 10:00 in Europe/Berlin except on a.txt', 'daily at 10:00 except a.txt in Europe/Berlin'],
    ['every 2 hours between 22:00 and 05:00 in UTC', 'every 2 hours between 22:00 and 05:00 in UTC'],
  ])('%s', (text, stored) => {
    expect(ruleOf(text).text).toBe(stored);
    expect(ruleOf(stored)).toStrictEqual(ruleOf(text));
  });
});

describe('what is wrong is named, with its cure:', () => {
  test.each([
    ['every 2 weeks from tomorrow at 07:00', 'every 2 weeks needs a date such as from 2026-11-30, found "tomorrow".'],
    [
      'every 2 weeks from 25 december at 07:00',
      'every 2 weeks needs a date such as from 2026-11-30, found "25 december".',
    ],
    [
      'every 2 weeks from 2026-02-30 at 07:00',
      'every 2 weeks needs a date such as from 2026-11-30, found "2026-02-30".',
    ],
    [
      'every 1000 days from 2026-11-30 at 07:00',
      'every needs a number from 1 to 999 and a date such as from 2026-11-30.',
    ],
    ['every 2 weeks from 2026-11-30', 'it needs a time at its end, such as at 10:00.'],
    [
      'every 2 weeks from 2026-11-30 09:00',
      'at stands before a time; did you mean every 2 weeks from 2026-11-30 at 09:00?',
    ],
    ['every 3 days from 2026-12-01 on monday at 07:00', 'every 3 days has no days: leave out on monday.'],
    [
      'monthly on the 21st working day at 07:00',
      'not every month has the 21st working day: at most the 20th, or the last.',
    ],
    [
      'last working day at 9',
      'it begins with "last working day at 9"; did you mean monthly on last working day at 09:00?',
    ],
    [
      'on the last working day at 18:00',
      'on needs days of the month such as on day 1 and 15 at 06:00, found "the last working day"; did you mean monthly on the last working day at 18:00?',
    ],
    ['daily at 7 except a.txt in UTC', 'at needs a time from 00:00 to 23:59, found "7"; did you mean 07:00?'],
    ['every day at 7 except a.txt in UTC', 'did you mean daily at 07:00 except a.txt in UTC?'],
    [
      'daily at 10:00 except a.txt Europe/Berlin',
      'in stands before a time zone; did you mean daily at 10:00 except a.txt in Europe/Berlin?',
    ],
    [
      'daily at 10:00 but not on a.txt',
      'except stands before a file of dates; did you mean daily at 10:00 except a.txt?',
    ],
    ['daily at 10:00 except holidays', 'except needs a file of dates such as except holidays.txt, found "holidays".'],
    [
      'daily at 10:00 except weekends in UTC',
      'except needs a file of dates such as except holidays.txt, found "weekends"; did you mean weekly on mon, tue, wed, thu, fri at 10:00 in UTC?',
    ],
    [
      'every 2 hours between 10pm and 5am in UTC',
      'between needs two times such as between 22:00 and 05:00, found "10pm and 5am"; did you mean every 2 hours between 22:00 and 05:00 in UTC?',
    ],
    ['daily at 10:00 between 22:00 and 22:00', 'between needs two different times, found "22:00 and 22:00".'],
    [
      'FINISHED, +1 HOUR between 22:00 and 05:00',
      'its modifier 1, "+1 HOUR between 22:00 and 05:00", is not possible: that needs plain words, such as every 1 hour between 22:00 and 05:00.',
    ],
    [
      'every 2 hours in UTC',
      'every needs no time zone; for a time of the day write a rule such as daily at 10:00 or weekly on monday at 01:00.',
    ],
  ])('%j', (text, fault) => {
    expect(problemOf(text)).toBe(`The repeat rule ${JSON.stringify(text)} is wrong: ${fault}`);
  });
});

test('a file that cannot be read excepts nothing, so that no job gets lost', async () => {
  keepDates('Christmas');
  expect(await timesOf('daily at 10:00 except holidays.txt and none.txt in UTC', 1)).toEqual(['12-01 10:00']);
});

test('a rule whose files except all days never comes', async () => {
  keepDates('01-01 to 06-30', '07-01 to 12-31');
  const rule = 'except holidays.txt and closed.txt in UTC';
  expect(await timesOf(`daily at 10:00 ${rule}`, 1)).toEqual([]);
  expect(await timesOf(`every 2 hours ${rule}`, 1)).toEqual([]);
});

describe('a job with a window', () => {
  const night = 'between 22:00 and 05:00 in UTC';

  test('that was added without a time waits for the window', async () => {
    const noon = at('2026-11-30 12:00');
    expect(formatInstant(await initialTime(ruleOf(`every 2 hours ${night}`), noon))).toBe('2026-11-30 22:00:00');
    expect(formatInstant(await initialTime(ruleOf('every 2 hours'), noon))).toBe('2026-11-30 12:00:00');
  });

  test('makes up for a missed time in the window', async () => {
    const rule = `daily at 23:00 ${night}`;
    const ended = {
      scheduled: at('2026-11-28 23:00'),
      started: at('2026-11-30 11:00'),
      finished: at('2026-11-30 12:00'),
    };
    const opening = { runAt: '2026-11-30 22:00:00', scheduledFor: '2026-11-29 23:00:00', skipped: 0 };
    expect(await plan(rule, ended, { missed: 'all' })).toEqual(opening);
    expect(await plan(rule, ended, { missed: 'once' })).toEqual(opening);
    expect(await plan(rule, ended, { missed: 'skip' })).toMatchObject({ runAt: '2026-11-30 23:00:00' });
  });
});

type IsDay = (date: Temporal.PlainDate, excepted: ReadonlySet<string>) => boolean;

interface Given {
  readonly zone: string;
  readonly isDay: IsDay;
  /** Minutes of the day. */
  readonly times: readonly number[];
  readonly isInterval: boolean;
  readonly window: { readonly from: number; readonly to: number } | null;
  readonly excepted: ReadonlySet<string>;
}

const STEP_MS = 15 * MINUTE_MS;

const isOpen = ({ from, to }: { readonly from: number; readonly to: number }, minute: number): boolean =>
  from < to ? from <= minute && minute < to : from <= minute || minute < to;

/** What the clocks of a zone show: the date, and both as if in UTC. */
function clockOf(zone: string): (atMs: number) => { readonly date: string; readonly wall: number } {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'short' });
  return (atMs) => {
    const [date = '', time = ''] = format.format(atMs).split(' ');
    return { date, wall: Date.parse(`${date}T${time}Z`) };
  };
}

/** What a rule gives in a stretch of time, found by looking at the clocks of its zone each quarter of an hour. */
function walk({ zone, isDay, times, isInterval, window, excepted }: Given, fromMs: number, toMs: number): number[] {
  const clock = clockOf(zone);
  const found: number[] = [];
  let isPending = false;
  let latestWall: number | null = null;
  // Times of long ago may wait for the end of a long holiday.
  for (let atMs = fromMs - 40 * DAY_MS; atMs <= toMs; atMs += STEP_MS) {
    const { date, wall } = clock(atMs);
    // An interval has the times that the clocks show; `at` has each once, also if the clocks go on behind it.
    const first = isInterval || latestWall === null ? wall : latestWall + STEP_MS;
    for (let shown = first; shown <= wall; shown += STEP_MS) {
      if (!times.includes((shown % DAY_MS) / MINUTE_MS) || excepted.has(date)) continue;
      isPending ||= isDay(Temporal.PlainDate.from(new Date(shown).toISOString().slice(0, 10)), excepted);
    }
    latestWall = Math.max(latestWall ?? wall, wall);
    if (!isPending || excepted.has(date) || (window && !isOpen(window, (wall % DAY_MS) / MINUTE_MS))) continue;
    isPending = false;
    if (atMs > fromMs) found.push(atMs);
  }
  return found;
}

const padded = (number: number): string => String(number).padStart(2, '0');
const writeTime = (minute: number): string => `${padded(Math.floor(minute / 60))}:${padded(minute % 60)}`;

const monthOf = (date: Temporal.PlainDate): Temporal.PlainDate[] =>
  Array.from({ length: date.daysInMonth }, (_, index) => date.with({ day: index + 1 }));
const isNth = (all: readonly Temporal.PlainDate[], nth: number, date: Temporal.PlainDate): boolean =>
  all.at(nth > 0 ? nth - 1 : nth)?.equals(date) ?? false;

/** The words for days, and whether a day is one of them. */
const anyDays = (around: Temporal.PlainDate): fc.Arbitrary<readonly [string, IsDay]> => {
  const anyFrom = fc.integer({ min: -30, max: 20 }).map((days) => around.add({ days }));
  const anyCount = fc.integer({ min: 1, max: 5 });
  const hasBegun = (date: Temporal.PlainDate, from: Temporal.PlainDate) => Temporal.PlainDate.compare(date, from) >= 0;
  const isInWeeks = (date: Temporal.PlainDate, from: Temporal.PlainDate, count: number): boolean => {
    const [week, first] = [date, from].map((each) => each.subtract({ days: each.dayOfWeek - 1 }));
    return (first as Temporal.PlainDate).until(week as Temporal.PlainDate).days % (7 * count) === 0;
  };
  const isInMonths = (date: Temporal.PlainDate, from: Temporal.PlainDate, count: number): boolean =>
    (date.year * 12 + date.month - from.year * 12 - from.month) % count === 0;
  return fc.oneof(
    fc.constant<readonly [string, IsDay]>(['daily', () => true]),
    fc.constant<readonly [string, IsDay]>(['weekly on sun-mon', ({ dayOfWeek }) => [7, 1].includes(dayOfWeek)]),
    fc
      .tuple(anyFrom, anyCount)
      .map(([from, count]): readonly [string, IsDay] => [
        `every ${count} days from ${from}`,
        (date) => hasBegun(date, from) && from.until(date).days % count === 0,
      ]),
    fc
      .tuple(anyFrom, anyCount)
      .map(([from, count]): readonly [string, IsDay] => [
        `every ${count} weeks from ${from}`,
        (date) => hasBegun(date, from) && isInWeeks(date, from, count) && date.dayOfWeek === from.dayOfWeek,
      ]),
    fc
      .tuple(anyFrom, anyCount)
      .map(([from, count]): readonly [string, IsDay] => [
        `every ${count} weeks from ${from} on tue and sat`,
        (date) => hasBegun(date, from) && isInWeeks(date, from, count) && [2, 6].includes(date.dayOfWeek),
      ]),
    fc
      .tuple(anyFrom, anyCount)
      .map(([from, count]): readonly [string, IsDay] => [
        `every ${count} months from ${from}`,
        (date) =>
          hasBegun(date, from) && isInMonths(date, from, count) && date.day === Math.min(from.day, date.daysInMonth),
      ]),
    fc.tuple(anyFrom, anyCount).map(([from, count]): readonly [string, IsDay] => [
      `every ${count} months from ${from} on the last friday`,
      (date) => {
        const fridays = monthOf(date).filter(({ dayOfWeek }) => dayOfWeek === 5);
        return hasBegun(date, from) && isInMonths(date, from, count) && isNth(fridays, -1, date);
      },
    ]),
    fc.constantFrom(1, 3, 20, -1, -2).map((nth): readonly [string, IsDay] => [
      `monthly on the ${nth > 0 ? `${nth}th` : nth === -1 ? 'last' : 'second last'} working day`,
      (date, excepted) =>
        isNth(
          monthOf(date).filter((day) => day.dayOfWeek < 6 && !excepted.has(day.toString())),
          nth,
          date,
        ),
    ]),
  );
};

/** Zones, and days on which their clocks change. */
const changes = [
  ['UTC', '2026-06-01'],
  ['Europe/Berlin', '2026-03-29'],
  ['Europe/Berlin', '2026-10-25'],
  ['America/St_Johns', '2026-03-08'],
  ['America/St_Johns', '2026-11-01'],
  ['Australia/Lord_Howe', '2026-10-04'],
  ['Australia/Lord_Howe', '2026-04-05'],
  ['Pacific/Apia', '2011-12-30'],
] as const;

const anyQuarter = fc.integer({ min: 0, max: 95 }).map((quarter) => quarter * 15);
const anyWindow = fc
  .tuple(anyQuarter, anyQuarter)
  .filter(([from, to]) => from !== to)
  .map(([from, to]) => ({ from, to }));

const anyGiven = fc.constantFrom(...changes).chain(([zone, change]) => {
  const around = Temporal.PlainDate.from(change);
  return fc.record({
    zone: fc.constant(zone),
    around: fc.constant(around),
    days: anyDays(around),
    times: fc.oneof(
      fc.uniqueArray(anyQuarter, { minLength: 1, maxLength: 3 }).map((times) => ({
        words: `at ${times.map(writeTime).join(', ')}`,
        times,
        isInterval: false,
      })),
      fc.constant({
        words: 'every 45min from 00:30 to 06:00',
        times: Array.from({ length: 8 }, (_, index) => 30 + 45 * index),
        isInterval: true,
      }),
    ),
    window: fc.option(anyWindow),
    holidays: fc.array(fc.tuple(fc.integer({ min: -20, max: 30 }), fc.integer({ min: 0, max: 9 })), { maxLength: 4 }),
    fromMinutes: fc.integer({ min: -4000, max: 4000 }),
  });
});

test('times agree with those of somebody who looks at the clocks all the time', async () => {
  const check = async ({ zone, around, days, times, window, holidays, fromMinutes }: GivenText): Promise<void> => {
    const ranges = holidays.map(([start, length]) => {
      const first = around.add({ days: start });
      return Array.from({ length: length + 1 }, (_, index) => first.add({ days: index }).toString());
    });
    keepDates(ranges.map((all) => `${all[0]} to ${all.at(-1)} closed`).join('\n') || '1900-01-01');
    const [words, isDay] = days;
    const except = ranges.length === 0 ? '' : ' except holidays.txt';
    const between = window === null ? '' : ` between ${writeTime(window.from)} and ${writeTime(window.to)}`;
    const text = `${words} ${times.words}${except}${between} in ${zone}`;
    const rule = calendarOf(text);
    expect(rule.text).toBe(text);
    const fromMs = Date.parse(`${around}T00:00Z`) + fromMinutes * MINUTE_MS;
    const toMs = fromMs + 45 * DAY_MS;
    const excepted = new Set(ranges.flat());
    // The walk goes by whole quarters.
    const startMs = Math.floor(fromMs / STEP_MS) * STEP_MS;
    const walked = walk({ ...times, zone, isDay, window, excepted }, startMs, toMs);
    await expectTimes(rule, walked, startMs, toMs);
  };
  await fc.assert(fc.asyncProperty(anyGiven, check), { numRuns: tries(200) });
});

type GivenText = typeof anyGiven extends fc.Arbitrary<infer Each> ? Each : never;

/** The next time, the latest time, and the series of a rule agree with a list of its times. */
async function expectTimes(rule: CalendarRule, walked: readonly number[], fromMs: number, toMs: number): Promise<void> {
  const listed: number[] = [];
  for (let at = await nextTimeAfter(rule, fromMs); at !== null && at <= toMs; at = await nextTimeAfter(rule, at)) {
    listed.push(at);
  }
  expect(listed.map(formatInstant), rule.text).toEqual(walked.map(formatInstant));
  for (const upToMs of [...walked, toMs, fromMs + 20 * DAY_MS]) {
    const latest = walked.findLast((at) => at <= upToMs) ?? null;
    expect(await latestTime(rule, { afterMs: fromMs, upToMs }), rule.text).toBe(latest);
  }
  const nowMs = fromMs + 20 * DAY_MS;
  const series = await calendarSeries(rule, fromMs, nowMs);
  expect(series?.passed).toBe(walked.filter((at) => at <= nowMs).length);
  expect(walked.map((_, index) => series?.timeAt(index))).toEqual(walked);
  if (rule.zone !== 'UTC' || rule.text.includes('working')) return;
  const gaps = walked.slice(1).map((at, index) => at - (walked[index] as number));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(shortestGapMs(rule, fromMs));
}

test('a rule that counts from an end gives the first moment that its limits allow', async () => {
  const check = async ({ zone, around, window, holidays, fromMinutes }: GivenText, hours: number): Promise<void> => {
    const excepted = new Set(
      holidays.flatMap(([start, length]) =>
        Array.from({ length: length + 1 }, (_, index) => around.add({ days: start + index }).toString()),
      ),
    );
    keepDates([...excepted].join('\n') || '1900-01-01');
    const between = window === null ? '' : ` between ${writeTime(window.from)} and ${writeTime(window.to)}`;
    const rule = ruleOf(`every ${hours} hours except holidays.txt${between} in ${zone}`);
    const endMs = Math.floor((Date.parse(`${around}T00:00Z`) + fromMinutes * MINUTE_MS) / STEP_MS) * STEP_MS;
    const clock = clockOf(zone);
    const isAllowed = (atMs: number): boolean => {
      const { date, wall } = clock(atMs);
      return !excepted.has(date) && (window === null || isOpen(window, (wall % DAY_MS) / MINUTE_MS));
    };
    let expected = endMs + hours * 60 * MINUTE_MS;
    while (!isAllowed(expected)) expected += STEP_MS;
    const planned = await planNext(rule, ranAt(endMs), { missed: 'all', nowMs: endMs, cap: 100 });
    expect(planned?.runAt, rule.text).toBe(expected);
    // However late its end is seen, it runs at a moment that the limits allow.
    const late = await planNext(rule, ranAt(endMs), { missed: 'once', nowMs: endMs + 9 * DAY_MS, cap: 100 });
    expect(isAllowed(late?.runAt ?? 0), rule.text).toBe(true);
  };
  await fc.assert(fc.asyncProperty(anyGiven, fc.integer({ min: 1, max: 60 }), check), { numRuns: tries(200) });
});

test('what is stored is read as the same rule', () => {
  const check = ({ zone, days: [words], times, window }: GivenText): void => {
    const between = window === null ? '' : ` between ${writeTime(window.from)} and ${writeTime(window.to)}`;
    const text = `${words} ${times.words}${between} except a.txt and dates/B.txt in ${zone}`;
    const parsed = parseRepeat(text);
    expect(parsed).toHaveProperty('rule');
    if ('rule' in parsed) expect(parseRepeat(parsed.rule.text)).toStrictEqual(parsed);
  };
  fc.assert(fc.property(anyGiven, check), { numRuns: tries(1000) });
});
