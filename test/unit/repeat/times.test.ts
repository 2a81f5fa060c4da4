import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createClock } from '../../../src/report/text/clock.ts';
import { latestTime, nextTimeAfter, shortestGapMs } from '../../../src/schedule/repeat/calendar.ts';
import { type CalendarRule, formatInstant, parseInstant } from '../../../src/schedule/repeat/rule.ts';
import { initialTime, listTimes } from '../../../src/schedule/repeat/series.ts';
import { tries } from '../../support/tries.ts';
import { at, calendarOf, next, ranAt, ruleOf } from './support.ts';

/** The times after a moment, as the clocks of the rule's zone show them. */
async function localTimes(rule: string, after: string, count: number): Promise<string[]> {
  const parsed = ruleOf(rule);
  const { times } = await listTimes(parsed, ranAt(at(after)), count);
  const zone = parsed.kind === 'calendar' ? parsed.zone : null;
  const clock = createClock(0, zone ?? 'UTC');
  return times.map((time) => clock.dateTime(time).slice(0, 16));
}

/** The four examples of the first document, by the clocks of Berlin. */
test.each([
  ['daily at 10:00', '2026-03-10 09:00:00', '2026-03-11 09:00:00'],
  ['weekly on monday at 01:00', '2026-03-16 00:00:00', '2026-03-23 00:00:00'],
  ['monthly on 1 at 00:00', '2026-03-31 22:00:00', '2026-04-30 22:00:00'],
  ['yearly on 14 february at 20:00', '2027-02-14 19:00:00', '2028-02-14 19:00:00'],
])('%s', async (rule, first, second) => {
  const { times } = await listTimes(ruleOf(`${rule} in Europe/Berlin`), ranAt(at('2026-03-10')), 2);
  expect(times.map(formatInstant)).toEqual([first, second]);
});

test('a time comes after the moment from which it is counted, never at it', async () => {
  const rule = 'daily at 10:00 in UTC';
  expect(await next(rule, ranAt(at('2026-03-10 09:59:59')))).toBe('2026-03-10 10:00:00');
  expect(await next(rule, ranAt(at('2026-03-10 10:00:00')))).toBe('2026-03-11 10:00:00');
  expect(await next(rule, ranAt(at('2026-03-10 10:00:00') - 1))).toBe('2026-03-10 10:00:00');
});

describe('a day that a month does not have is its last one:', () => {
  test.each([
    ['monthly on 31 at 06:00 in UTC', '2026-01-15', ['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30']],
    ['monthly on last at 06:00 in UTC', '2028-01-15', ['2028-01-31', '2028-02-29', '2028-03-31', '2028-04-30']],
    ['monthly on 30 at 06:00 in UTC', '2028-01-15', ['2028-01-30', '2028-02-29', '2028-03-30', '2028-04-30']],
    ['yearly on 29 february at 06:00 in UTC', '2026-01-15', ['2026-02-28', '2027-02-28', '2028-02-29', '2029-02-28']],
  ])('%s', async (rule, after, days) => {
    expect(await localTimes(rule, after, 4)).toEqual(days.map((day) => `${day} 06:00`));
  });
});

describe('a time that the clocks skip runs when they go on:', () => {
  test.each([
    ['daily at 02:30 in Europe/Berlin', '2026-03-28', ['03-28 02:30', '03-29 03:00', '03-30 02:30']],
    ['daily at 02:00 in Europe/Berlin', '2026-03-28', ['03-28 02:00', '03-29 03:00', '03-30 02:00']],
    ['daily at 03:00 in Europe/Berlin', '2026-03-28', ['03-28 03:00', '03-29 03:00', '03-30 03:00']],
    ['daily at 02:30 in America/New_York', '2026-03-07', ['03-07 02:30', '03-08 03:00', '03-09 02:30']],
    ['daily at 00:00 in America/Havana', '2026-03-07 12:00', ['03-08 01:00', '03-09 00:00']],
    ['weekly on sunday at 00:30 in America/Havana', '2026-03-07 12:00', ['03-08 01:00', '03-15 00:30']],
    ['daily at 02:10 in Australia/Lord_Howe', '2026-10-02 20:00', ['10-04 02:30', '10-05 02:10']],
    ['daily at 02:29 in Australia/Lord_Howe', '2026-10-02 20:00', ['10-04 02:30', '10-05 02:29']],
    ['monthly on last at 02:30 in Europe/Berlin', '2024-03-01', ['03-31 03:00', '04-30 02:30']],
  ] as const)('%s', async (rule, after, expected) => {
    const year = after.slice(0, 4);
    const times = await localTimes(rule, after, expected.length);
    expect(times).toEqual(expected.map((time) => `${year}-${time}`));
  });
});

describe('a time that the clocks show twice runs the first time only:', () => {
  test.each([
    ['daily at 02:30 in Europe/Berlin', '2026-10-24 12:00', ['2026-10-25 00:30', '2026-10-26 01:30']],
    ['daily at 02:00 in Europe/Berlin', '2026-10-24 12:00', ['2026-10-25 00:00', '2026-10-26 01:00']],
    ['daily at 03:00 in Europe/Berlin', '2026-10-24 12:00', ['2026-10-25 02:00', '2026-10-26 02:00']],
    ['daily at 00:30 in America/Havana', '2026-10-31 12:00', ['2026-11-01 04:30', '2026-11-02 05:30']],
    ['daily at 01:45 in Australia/Lord_Howe', '2026-04-04 12:00', ['2026-04-04 14:45', '2026-04-05 15:15']],
  ])('%s', async (rule, after, expected) => {
    const { times } = await listTimes(ruleOf(rule), ranAt(at(after)), 2);
    expect(times.map((time) => formatInstant(time).slice(0, 16))).toEqual(expected);
  });

  test('also when it has just run, and the clocks come to it again', async () => {
    const rule = 'daily at 02:30 in Europe/Berlin';
    const again = at('2026-10-25 01:30:00');
    expect(await next(rule, ranAt(again - 1000))).toBe('2026-10-26 01:30:00');
    expect(await next(rule, ranAt(again))).toBe('2026-10-26 01:30:00');
  });
});

describe('the day that Samoa left out runs at its end:', () => {
  test.each([
    ['daily at 10:00', ['2011-12-29 10:00', '2011-12-31 00:00', '2011-12-31 10:00', '2012-01-01 10:00']],
    // Both days begin at the same instant.
    ['daily at 00:00', ['2011-12-29 00:00', '2011-12-31 00:00', '2012-01-01 00:00', '2012-01-02 00:00']],
    ['weekly on friday at 10:00', ['2011-12-31 00:00', '2012-01-06 10:00']],
    ['monthly on 30 at 10:00', ['2011-12-31 00:00', '2012-01-30 10:00']],
  ])('%s', async (rule, expected) => {
    const times = await localTimes(`${rule} in Pacific/Apia`, '2011-12-29 09:00', expected.length);
    expect(times).toEqual(expected);
  });
});

test('over a year each day has its run, an hour more or less apart at most', async () => {
  for (const zone of [
    'Europe/Berlin',
    'America/Havana',
    'Australia/Lord_Howe',
    'Africa/Casablanca',
    'Asia/Kathmandu',
  ]) {
    for (const time of ['00:00', '00:30', '02:15', '02:30', '23:59']) {
      const rule = ruleOf(`daily at ${time} in ${zone}`);
      const { times, isStuck } = await listTimes(rule, ranAt(at('2024-01-01')), 400);
      expect(isStuck).toBe(false);
      for (const [index, found] of times.entries()) {
        const hoursApart = (found - (times[index - 1] ?? found - 86_400_000)) / 3_600_000;
        expect(hoursApart).toBeGreaterThanOrEqual(22.5);
        expect(hoursApart).toBeLessThanOrEqual(25.5);
      }
    }
  }
});

describe('a job that was added without a time', () => {
  const now = at('2026-03-10 09:30:00') + 123;

  test.each(['SCHEDULED, +1 HOUR', 'DAILY', 'every 90 seconds'])('is due at once with %s', async (rule) => {
    expect(await initialTime(ruleOf(rule), now)).toBe(now);
  });

  test.each([
    ['daily at 10:00 in UTC', '2026-03-10 10:00:00'],
    ['daily at 09:30 in UTC', '2026-03-11 09:30:00'],
    ['monthly on 1 at 00:00 in Europe/Berlin', '2026-03-31 22:00:00'],
  ])('waits for its time with %s', async (rule, expected) => {
    expect(formatInstant(await initialTime(ruleOf(rule), now))).toBe(expected);
  });
});

test('the calendar begins with the year 0, wherever that begins', async () => {
  const first = ranAt(at('0000-01-01'));
  expect(await next('monthly on 1 at 00:00 in Etc/GMT+5', first)).toBe('0000-01-01 05:00:00');
  expect(await next('yearly on 1 january at 00:00 in Etc/GMT+5', first)).toBe('0000-01-01 05:00:00');
  expect(await next('daily at 00:00 in UTC', ranAt(at('9999-12-31')))).toBeNull();
});

async function latest(rule: string, after: string, upTo: string): Promise<string | null> {
  const found = await latestTime(calendarOf(rule), { afterMs: at(after), upToMs: at(upTo) });
  return found === null ? null : formatInstant(found).slice(0, 16);
}

describe('the latest time after one moment and up to another:', () => {
  test.each([
    ['daily at 10:00 in UTC', '2026-03-10 09:00', '2026-03-10 10:00', '2026-03-10 10:00'],
    ['daily at 10:00 in UTC', '2026-03-10 10:00', '2026-03-11 09:59', null],
    ['daily at 10:00 in UTC', '2026-03-10 09:00', '2026-03-10 09:59', null],
    ['daily at 10:00 in UTC', '2020-01-01', '2026-03-10 09:59', '2026-03-09 10:00'],
    ['daily at 02:30 in Europe/Berlin', '2026-03-29 00:59', '2026-03-29 01:00', '2026-03-29 01:00'],
    ['daily at 02:30 in Europe/Berlin', '2026-10-25 00:00', '2026-10-25 23:00', '2026-10-25 00:30'],
    ['weekly on monday at 07:00 in Europe/Berlin', '2026-11-01', '2026-11-30 05:59', '2026-11-23 06:00'],
    ['monthly on last at 18:00 in UTC', '2028-01-31 18:00', '2028-02-29 18:00', '2028-02-29 18:00'],
    ['monthly on 31 at 18:00 in UTC', '2026-01-01', '2026-03-01', '2026-02-28 18:00'],
    ['yearly on 29 february at 06:00 in UTC', '1970-01-01', '2026-11-23', '2026-02-28 06:00'],
    ['every 15min from 09:00 to 17:00 in UTC', '2026-03-09 17:00', '2026-03-10 08:59', null],
    ['every 15min from 09:00 to 17:00 in UTC', '2026-03-09 16:00', '2026-03-10 08:59', '2026-03-09 17:00'],
    ['every 3h from 21:00 to 06:00 in UTC', '2026-03-09', '2026-03-10 04:00', '2026-03-10 03:00'],
    ['*/15 * * * * in Europe/Berlin', '2026-10-25 00:50', '2026-10-25 01:10', '2026-10-25 01:00'],
    ['*/15 2 * * * in Europe/Berlin', '2026-03-28 02:00', '2026-03-29 23:59', null],
    ['0 6 29 2 * in UTC', '1970-01-01', '2026-11-23', '2024-02-29 06:00'],
    ['daily at 10:00 in Pacific/Apia', '2011-12-30 09:59', '2011-12-30 10:00', '2011-12-30 10:00'],
  ])('%s, after %s up to %s', async (rule, after, upTo, expected) => {
    expect(await latest(rule, after, upTo)).toBe(expected);
  });
});

describe('the shortest time between two times:', () => {
  const hourMs = 3_600_000;

  test.each([
    ['daily at 10:00', 24],
    ['weekly on monday at 10:00', 7 * 24],
    ['monthly on 1 at 10:00', 28 * 24],
    ['monthly on 31 at 10:00', 28 * 24],
    ['yearly on 14 february at 10:00', 365 * 24],
    ['daily at 02:30 and 14:30', 12],
    ['daily at 23:00 and 01:00', 2],
    ['weekly on mon, wed and fri at 07:00', 48],
    ['weekdays at 08:00', 24],
    ['on day 1 and 15 at 06:00', 14 * 24],
    ['monthly on the last friday at 18:00', 28 * 24],
    ['weekdays every 15min from 09:00 to 17:00', 0.25],
    ['every 3h from 21:00 to 06:00', 3],
    ['0 7 * * 1', 7 * 24],
    ['*/5 8-18 * * *', 5 / 60],
    ['*/7 * * * *', 4 / 60],
    ['0 6 29 2 *', 1461 * 24],
  ])('%s', (rule, hours) => {
    expect(shortestGapMs(calendarOf(rule), at('2026-11-23')) / hourMs).toBe(hours);
  });
});

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'Africa/Cairo'];

const anyRule = fc
  .record({
    days: fc.constantFrom('daily', 'weekly on sunday', 'monthly on 31', 'monthly on 15', 'yearly on 29 february'),
    hour: fc.integer({ min: 0, max: 23 }),
    minute: fc.integer({ min: 0, max: 59 }),
    zone: fc.constantFrom(...zones),
  })
  .map(({ days, hour, minute, zone }) =>
    calendarOf(`${days} at ${hour}:${String(minute).padStart(2, '0')} in ${zone}`),
  );

const anyInterval = fc
  .record({
    rule: fc.constantFrom(
      'weekdays every 15min from 01:30 to 03:30',
      'every 3h from 21:00 to 06:00',
      '*/20 1-3 * * *',
      '0 */2 */2 * sun',
      '30 2 29 2 *',
      '10,50 0,2,23 1,31 * fri',
      'monthly on the last sunday at 01:30, 02:30 and 03:00',
    ),
    zone: fc.constantFrom(...zones),
  })
  .map(({ rule, zone }) => calendarOf(`${rule} in ${zone}`));

const anyMoment = fc.integer({ min: at('2012-01-01'), max: at('2037-01-01') });

test('what comes next is the latest once it has come, and nothing lies in between', async () => {
  const check = async (rule: CalendarRule, afterMs: number): Promise<void> => {
    const nextMs = (await nextTimeAfter(rule, afterMs)) as number;
    expect(nextMs).toBeGreaterThan(afterMs);
    expect(await latestTime(rule, { afterMs, upToMs: nextMs })).toBe(nextMs);
    expect(await latestTime(rule, { afterMs, upToMs: nextMs - 1 })).toBeNull();
    const furtherMs = (await nextTimeAfter(rule, nextMs)) as number;
    expect(await latestTime(rule, { afterMs, upToMs: furtherMs - 1 })).toBe(nextMs);
  };
  await fc.assert(fc.asyncProperty(fc.oneof(anyRule, anyInterval), anyMoment, check), { numRuns: tries(2000) });
});

test.each([
  ['2026-03-10', '2026-03-10T00:00:00.000Z'],
  ['2026-03-10 13:45', '2026-03-10T13:45:00.000Z'],
  ['2026-03-10 13:45:09', '2026-03-10T13:45:09.000Z'],
  ['2026-03-10T13:45:09.123Z', '2026-03-10T13:45:09.123Z'],
  ['2026-03-10 13:45+01:00', '2026-03-10T12:45:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
])('%s', (text, iso) => {
  expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(iso);
});

test.each([
  '',
  'now',
  '2026-3-10',
  '2026-02-30',
  '2026-02-29',
  '2026-13-01',
  '2026-00-10',
  '2026-03-10 24:00',
  '2026-03-10 13:60',
  '2026-03-10 13:45:60',
  '2026-03-10 13',
  '2026-03-10Z',
  '2026-03-10 13:45+25:00',
  '2026-03-10 13:45 UTC',
])('%j is no time', (text) => {
  expect(parseInstant(text)).toBeNull();
});

test('what is written is read again', () => {
  const seconds = fc.integer({ min: -62_167_219_200, max: 253_402_300_799 });
  fc.assert(
    fc.property(seconds, (second) => {
      expect(parseInstant(formatInstant(second * 1000))).toBe(second * 1000);
    }),
  );
});
