import { describe, expect, test } from 'vitest';
import { createClock } from '../../../src/report/text/clock.ts';
import { formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { initialTime, listTimes } from '../../../src/schedule/repeat/series.ts';
import { at, next, ranAt, ruleOf } from './support.ts';

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
