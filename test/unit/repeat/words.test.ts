import { describe, expect, test } from 'vitest';
import { explainRepeat, formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { listTimes } from '../../../src/schedule/repeat/series.ts';
import { at, problemOf, ranAt, ruleOf } from './support.ts';

async function timesOf(rule: string, after: string, count: number): Promise<string[]> {
  const { times } = await listTimes(ruleOf(rule), ranAt(at(after)), count);
  return times.map((time) => formatInstant(time).slice(5, 16));
}

/** 2026-11-23 is a Monday. */
describe('rules and their next times after 2026-11-23:', () => {
  test.each([
    ['daily at 02:30 and 14:30', ['11-23 02:30', '11-23 14:30', '11-24 02:30']],
    ['daily at 14:30, 2:30 and 20:00', ['11-23 02:30', '11-23 14:30', '11-23 20:00']],
    ['weekly on monday, wednesday and friday at 07:00', ['11-23 07:00', '11-25 07:00', '11-27 07:00', '11-30 07:00']],
    ['weekly on mon-wed and sunday at 07:00', ['11-23 07:00', '11-24 07:00', '11-25 07:00', '11-29 07:00']],
    ['weekly on sun-thu at 09:00', ['11-23 09:00', '11-24 09:00', '11-25 09:00', '11-26 09:00', '11-29 09:00']],
    [
      'weekly on sunday to thursday at 09:00',
      ['11-23 09:00', '11-24 09:00', '11-25 09:00', '11-26 09:00', '11-29 09:00'],
    ],
    ['weekly on fri-mon at 07:00', ['11-23 07:00', '11-27 07:00', '11-28 07:00', '11-29 07:00', '11-30 07:00']],
    ['weekly on saturday to wednesday at 07:00', ['11-23 07:00', '11-24 07:00', '11-25 07:00', '11-28 07:00']],
    ['weekly on sun - mon at 07:00', ['11-23 07:00', '11-29 07:00', '11-30 07:00']],
    ['weekly on sun-sat at 07:00', ['11-23 07:00', '11-24 07:00']],
    ['0 9 * * sun-thu', ['11-23 09:00', '11-24 09:00', '11-25 09:00', '11-26 09:00', '11-29 09:00']],
    ['weekly on monday to tuesday at 07:00', ['11-23 07:00', '11-24 07:00', '11-30 07:00']],
    ['monthly on the 1st and 15th at 06:00', ['12-01 06:00', '12-15 06:00']],
    ['weekly on fri and mon at 07:00', ['11-23 07:00', '11-27 07:00', '11-30 07:00']],
    ['weekdays at 08:00', ['11-23 08:00', '11-24 08:00', '11-25 08:00', '11-26 08:00', '11-27 08:00', '11-30 08:00']],
    ['weekends at 08:00 and 20:00', ['11-28 08:00', '11-28 20:00', '11-29 08:00', '11-29 20:00', '12-05 08:00']],
    ['on day 1 and 15 at 06:00', ['12-01 06:00', '12-15 06:00', '01-01 06:00']],
    [
      'on day 30 and last at 06:00',
      ['11-30 06:00', '12-30 06:00', '12-31 06:00', '01-30 06:00', '01-31 06:00', '02-28 06:00'],
    ],
    ['monthly on 1 and 15 at 06:00', ['12-01 06:00', '12-15 06:00']],
    ['monthly on the last day at 06:00', ['11-30 06:00', '12-31 06:00']],
    ['monthly on the last friday at 18:00', ['11-27 18:00', '12-25 18:00', '01-29 18:00', '02-26 18:00']],
    ['monthly on the second tuesday at 18:00', ['12-08 18:00', '01-12 18:00', '02-09 18:00']],
    ['monthly on first monday at 18:00', ['12-07 18:00', '01-04 18:00']],
    ['weekdays every 15min from 09:00 to 09:30', ['11-23 09:00', '11-23 09:15', '11-23 09:30', '11-24 09:00']],
    ['every 4 hours from 09:00 to 17:00', ['11-23 09:00', '11-23 13:00', '11-23 17:00', '11-24 09:00']],
    ['every 7min from 09:00 to 09:20', ['11-23 09:00', '11-23 09:07', '11-23 09:14', '11-24 09:00']],
    ['weekends every 12h', ['11-28 00:00', '11-28 12:00', '11-29 00:00', '11-29 12:00', '12-05 00:00']],
    ['daily every 8 hours', ['11-23 08:00', '11-23 16:00', '11-24 00:00']],
    ['weekly on sat every 3h from 21:00 to 03:00', ['11-28 21:00', '11-29 00:00', '11-29 03:00', '12-05 21:00']],
    ['0 7 * * 1', ['11-23 07:00', '11-30 07:00']],
    ['@monthly', ['12-01 00:00', '01-01 00:00']],
    ['@every_minute', ['11-23 00:01', '11-23 00:02']],
  ])('%s', async (rule, expected) => {
    expect(await timesOf(`${rule} in UTC`, '2026-11-23', expected.length)).toEqual(expected);
  });
});

describe('in another zone:', () => {
  test.each([
    ['weekly on monday and friday at 07:00 in Asia/Tokyo', ['11-26 22:00', '11-29 22:00']],
    ['0 7 * * mon in America/New_York', ['11-23 12:00', '11-30 12:00']],
    ['monthly on the last friday at 20:00 in America/Los_Angeles', ['11-28 04:00', '12-26 04:00']],
    ['weekdays every 30min from 09:00 to 09:30 in Asia/Kathmandu', ['11-23 03:15', '11-23 03:45', '11-24 03:15']],
  ])('%s', async (rule, expected) => {
    expect(await timesOf(rule, '2026-11-23', expected.length)).toEqual(expected);
  });
});

describe('an interval goes by what the clocks show when they change:', () => {
  test.each([
    ['every 30min from 01:00 to 03:30', '2026-03-29', ['00:30', '01:00', '01:30', '23:00']],
    ['every 30min from 01:30 to 03:00', '2026-10-24 22:00', ['23:30', '00:00', '00:30', '01:00', '01:30', '02:00']],
    ['daily at 02:00, 02:30 and 03:00', '2026-03-29', ['01:00', '00:00']],
    ['daily at 02:00, 02:30 and 03:00', '2026-10-24 22:00', ['00:00', '00:30', '02:00', '01:00']],
    ['*/30 * * * *', '2026-10-24 23:15', ['23:30', '00:00', '00:30', '01:00', '01:30', '02:00']],
  ])('%s after %s', async (rule, after, expected) => {
    const times = await timesOf(`${rule} in Europe/Berlin`, after, expected.length);
    expect(times.map((time) => time.slice(6))).toEqual(expected);
  });
});

test.each([
  ['daily at 02:30 and 14:30', 'Runs every day at 02:30 and 14:30'],
  ['weekly on mon, wed and fri at 07:00', 'Runs every Monday, Wednesday and Friday at 07:00'],
  ['on day 1 and 15 at 06:00', 'Runs on day 1 and 15 of every month at 06:00'],
  ['monthly on the last friday at 18:00', 'Runs on the last Friday of every month at 18:00'],
  [
    'weekdays every 15min from 09:00 to 17:00',
    'Runs every day from Monday to Friday, every 15 minutes from 09:00 to 17:00',
  ],
  ['daily every 2 hours', 'Runs every 2 hours'],
  ['0 */5 * * *', 'Runs every day, every 5 hours'],
  ['daily every 1 hour from 09:00 to 12:00', 'Runs every day, every hour from 09:00 to 12:00'],
  ['weekly on monday every 1 hour', 'Runs every Monday, every hour'],
  ['0 * * * *', 'Runs every hour'],
  ['0 */2 * 7 *', 'Runs every day in July, every 2 hours'],
  ['0 7 * * 1', 'Runs every Monday at 07:00'],
  ['30 6 1,15 * *', 'Runs on day 1 and 15 of every month at 06:30'],
  ['0 0 1 jan,jul *', 'Runs on day 1 in January and July at 00:00'],
  ['0 0 13 * 5', 'Runs on day 13 of every month and every Friday at 00:00'],
  ['*/5 * * * *', 'Runs every 5 minutes'],
])('%s is explained', (rule, explanation) => {
  expect(explainRepeat(ruleOf(`${rule} in UTC`))).toBe(`${explanation} in UTC.`);
});

describe('what is wrong is named, with its cure:', () => {
  test.each([
    [
      'weekly on munday at 07:00',
      'weekly needs a day such as weekly on monday at 01:00, found "munday"; did you mean monday?',
    ],
    ['weekly on monday and at 07:00', 'weekly needs a day such as weekly on monday at 01:00, found "monday and".'],
    ['weekdays', 'it needs a time at its end, such as at 10:00.'],
    [
      'weekdays on monday at 07:00',
      'weekdays needs a time, such as weekdays at 08:00 or weekdays every 15min from 09:00 to 17:00.',
    ],
    ['daily at 25:00', 'at needs a time from 00:00 to 23:59, found "25:00".'],
    ['daily at 10:00 and 25:00', 'at needs a time from 00:00 to 23:59, found "25:00".'],
    ['at 10:00', 'it does not say on which days; did you mean daily at 10:00?'],
    ['daily at 8pm', 'at needs a time from 00:00 to 23:59, found "8pm"; did you mean 20:00?'],
    ['daily at noon', 'at needs a time from 00:00 to 23:59, found "noon"; did you mean 12:00?'],
    ['daily at 0830', 'at needs a time from 00:00 to 23:59, found "0830"; did you mean 08:30?'],
    ['daily 08:00', 'at stands before a time; did you mean daily at 08:00?'],
    ['every day at 7', 'did you mean daily at 07:00?'],
    ['every day at 7 and 7pm', 'did you mean daily at 07:00 and 19:00?'],
    ['every day 7am', 'did you mean daily at 07:00?'],
    ['every day at 25:00', 'at needs a time from 00:00 to 23:59, found "25:00".'],
    ['every day at 8:00 in Europe/Berlin', 'did you mean daily at 08:00 in Europe/Berlin?'],
    [
      'dayly at 8 in Europe/Berlin',
      'it begins with "dayly at 8 in Europe/Berlin"; did you mean daily at 08:00 in Europe/Berlin?',
    ],
    ['on monday 7 pm', 'at stands before a time; did you mean weekly on monday at 19:00?'],
    ['every monday at 07:00', 'did you mean weekly on monday at 07:00?'],
    ['every weekday at 08:00', 'did you mean weekdays at 08:00?'],
    [
      'on the last friday at 18:00',
      'on needs days of the month such as on day 1 and 15 at 06:00, found "the last friday"; did you mean monthly on the last friday at 18:00?',
    ],
    [
      'on 1 january at 18:00',
      'on needs days of the month such as on day 1 and 15 at 06:00, found "1 january"; did you mean yearly on 1 january at 18:00?',
    ],
    ['weekly on mon-fun at 08:00', 'weekly needs a day such as weekly on monday at 01:00, found "mon-fun".'],
    ['10:00', 'it does not say on which days; did you mean daily at 10:00?'],
    ['monday at 10:00', 'it begins with "monday at 10:00"; did you mean weekly on monday at 10:00?'],
    ['dayly at 10:00', 'it begins with "dayly at 10:00"; did you mean daily at 10:00?'],
    [
      'on monday at 10:00',
      'on needs days of the month such as on day 1 and 15 at 06:00, found "monday"; did you mean weekly on monday at 10:00?',
    ],
    ['on day 32 at 10:00', 'on needs days of the month such as on day 1 and 15 at 06:00, found "32".'],
    [
      'monthly on the fifth friday at 10:00',
      'monthly needs a day such as 1, last, the last friday, the second tuesday or the 3rd working day, found "fifth".',
    ],
    [
      'monthly on the last fryday at 10:00',
      'monthly needs the name of a day, such as monthly on the last friday at 18:00, found "fryday"; did you mean friday?',
    ],
    [
      'yearly on 14 febuary at 10:00',
      'yearly needs a date such as yearly on 14 february at 20:00, found "14 febuary"; did you mean 14 february?',
    ],
    [
      'daily every 7min',
      'a day is not a multiple of 7min; write every 6min or every 8min, or every 7min from 00:00 to 23:59.',
    ],
    [
      'daily every 36 hours',
      'every 36 hours is longer than a day; ' +
        'a script runs that often in jobs/36hours, without a schedule, a job by the rule every 36 hours alone.',
    ],
    ['daily every 90 seconds', 'the shortest interval by the clock is every minute.'],
    ['every 15min from 9 to 17', 'from and to need times from 00:00 to 23:59, found "9".'],
    ['every 15min from 09:00 to 09:00', 'from and to need two different times.'],
    ['15min', 'it begins with a number; did you mean every 15min?'],
    ['2 hours', 'it begins with a number; did you mean every 2 hours?'],
    ['0 0 30 2 *', 'it never comes, as none of its months has such a day.'],
    ['0 0 31 2,4,6 *', 'it never comes, as none of its months has such a day.'],
    [
      '0 7 * * fri-mon',
      'its day of the week must be 0 to 7 or sun to sat, a list, a range or */ and a step, found "fri-mon"; did you mean 5-7,1?',
    ],
    [
      '0 7 * * 5-0',
      'its day of the week must be 0 to 7 or sun to sat, a list, a range or */ and a step, found "5-0"; did you mean 5-7?',
    ],
    ['0 25 * * *', 'its hour must be 0 to 23, a list, a range or */ and a step, found "25".'],
    ['61 * * * *', 'its minute must be 0 to 59, a list, a range or */ and a step, found "61".'],
    [
      '0 7 * * munday',
      'its day of the week must be 0 to 7 or sun to sat, a list, a range or */ and a step, found "munday".',
    ],
    [
      '0 7 ? * mon',
      'its day of the month must be 1 to 31, a list, a range or */ and a step, found "?"; did you mean *?',
    ],
    [
      '5/15 * * * *',
      'its minute must be 0 to 59, a list, a range or */ and a step, found "5/15"; a step follows * or a range.',
    ],
    [
      '0~30 * * * *',
      'its minute must be 0 to 59, a list, a range or */ and a step, found "0~30"; some crons choose a value at random there: write one of them.',
    ],
    ['*/70 * * * *', 'its minute must be 0 to 59, a list, a range or */ and a step, found "*/70".'],
    [
      '0 0 L * *',
      'its day of the month must be 1 to 31, a list, a range or */ and a step, found "l"; for such days write monthly on last at 02:30 or monthly on the second tuesday at 02:30.',
    ],
    [
      '0 0 7 * * *',
      'cron has five fields: minute, hour, day of the month, month, day of the week; these are six: leave out the first one, seconds are not possible.',
    ],
    [
      '0 7 * * 1 php x.php',
      'cron has five fields: minute, hour, day of the month, month, day of the week; leave out what follows them, "php x.php".',
    ],
    ['0 7 * *', 'cron has five fields: minute, hour, day of the month, month, day of the week; these are 4.'],
    [
      '@dayly',
      '@ must be one of @every_minute, @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, found "@dayly"; did you mean @daily?',
    ],
    ['@reboot', '@reboot is not a time: a script that runs once after each boot has the tag @reboot alone.'],
    ['@every 5m', 'did you mean every 5m?'],
  ])('%j', (text, fault) => {
    expect(problemOf(text)).toBe(`The repeat rule ${JSON.stringify(text)} is wrong: ${fault}`);
  });
});

test.each([
  ['SCHEDULED, +1 HOUR', 'Runs again 1 hour after the time for which it was scheduled.'],
  ['STARTED, +30 MINUTES', 'Runs again 30 minutes after the time at which it started.'],
  ['FINISHED, -1 DAY', 'Runs again 1 day before the time at which it finished.'],
  ['HOURLY', 'Runs again 1 hour after the time at which it finished.'],
  ['WEEKLY', 'Runs again 7 days after the time at which it finished.'],
  ['every 90 seconds', 'Runs again 90 seconds after the time at which it finished.'],
  [
    'FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, -6 HOURS',
    'Runs again at a time counted in UTC from the time at which it finished: 1 day later, then on to Monday unless it is one, then back to the beginning of the day, then 6 hours earlier.',
  ],
  [
    'FINISHED, WEEKDAY 0, WEEKDAY 6',
    'Runs again at a time counted in UTC from the time at which it finished: on to Sunday unless it is one, then on to Saturday unless it is one.',
  ],
  ['daily at 9:05 in Europe/Berlin', 'Runs every day at 09:05 in Europe/Berlin.'],
  ['weekly on sunday at 01:00 in UTC', 'Runs every Sunday at 01:00 in UTC.'],
  ['monthly on 1 at 00:00 in UTC', 'Runs on day 1 of every month at 00:00 in UTC.'],
  ['monthly on 30 at 00:00 in UTC', 'Runs on day 30 of every month, or on its last one, at 00:00 in UTC.'],
  ['monthly on 31 at 00:00 in UTC', 'Runs on the last day of every month at 00:00 in UTC.'],
  ['yearly on 14 february at 20:00 in UTC', 'Runs every year on 14 February at 20:00 in UTC.'],
  ['yearly on 29 february at 20:00 in UTC', 'Runs every year on 29 February, or 28 February, at 20:00 in UTC.'],
])('%s', (rule, explanation) => {
  expect(explainRepeat(ruleOf(rule))).toBe(explanation);
});

test('without a zone it names that of the callers', () => {
  const explanation = explainRepeat(ruleOf('daily at 10:00'));
  expect(explanation).toMatch(/^Runs every day at 10:00 in the zone of this (host|root), \S+\.$/);
});
