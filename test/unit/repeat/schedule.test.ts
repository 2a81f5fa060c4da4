import { describe, expect, test } from 'vitest';
import { nextTimeAfter } from '../../../src/schedule/repeat/calendar.ts';
import { parseSchedule } from '../../../src/schedule/repeat/grammar/parse.ts';
import { formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { DAY_MS } from '../../../src/system/base/values.ts';
import { at } from './support.ts';

/** The first times after 2026-11-23, a Monday, in UTC. */
async function timesOf(text: string, zone: string | null, count: number): Promise<string[]> {
  const parsed = parseSchedule(text, zone);
  if ('problem' in parsed) throw new Error(parsed.problem);
  const times: number[] = [at('2026-11-23')];
  while (times.length <= count) times.push((await nextTimeAfter(parsed.rule, times.at(-1) as number)) as number);
  return times.slice(1).map((time) => formatInstant(time).slice(5, 16));
}

describe('a script runs by the clock:', () => {
  test.each([
    ['every 2 hours', ['11-23 02:00', '11-23 04:00']],
    ['every 45min', ['11-23 00:45', '11-23 01:30']],
    ['every day', ['11-24 00:00', '11-25 00:00']],
    ['daily', ['11-24 00:00', '11-25 00:00']],
    ['weekly on wednesday', ['11-25 00:00', '12-02 00:00']],
    ['monthly on the last friday', ['11-27 00:00', '12-25 00:00']],
    ['weekends', ['11-28 00:00', '11-29 00:00']],
    ['0 7 * * 1', ['11-23 07:00', '11-30 07:00']],
    ['weekly on monday at 07:00', ['11-23 07:00', '11-30 07:00']],
    ['weekly on mondays and thursdays at 07:00', ['11-23 07:00', '11-26 07:00']],
    ['monthly on the 1st and the 15th', ['12-01 00:00', '12-15 00:00']],
    ['every 2 weeks from 2026-11-30', ['11-30 00:00', '12-14 00:00']],
    ['every 2 hours between 21:30 and 05:00', ['11-23 02:00', '11-23 04:00']],
    ['every 6 hours between 09:00 and 17:00', ['11-23 09:00', '11-23 12:00']],
  ])('%s', async (text, expected) => {
    expect(await timesOf(text, 'UTC', 2)).toEqual(expected);
  });
});

describe('a rhythm without a date gets one:', () => {
  const start = (isFirst: (date: Date) => boolean): string => {
    const date = new Date(Date.now() + DAY_MS);
    while (!isFirst(date)) date.setUTCDate(date.getUTCDate() + 1);
    return date.toISOString().slice(0, 10);
  };
  const any = start(() => true);
  const monday = start((date) => date.getUTCDay() === 1);
  const friday = start((date) => date.getUTCDay() === 5);
  const first = (months: number, day = 1) =>
    start((date) => date.getUTCDate() === day && date.getUTCMonth() % months === 0);
  const undated = 'it does not say from which date it counts; ';
  const rare = (words: string, folder: string) =>
    `every ${words} is longer than a day; a script runs that often in jobs/${folder}, without a schedule, ` +
    `a job by the rule every ${words} alone`;

  test.each([
    ['biweekly on monday at 09:00', `it begins with "biweekly"; did you mean every 2 weeks from ${monday} at 09:00?`],
    ['bi-weekly', `it begins with "bi"; did you mean every 2 weeks from ${any} at 10:00?`],
    ['fortnightly on friday', `it begins with "fortnightly"; did you mean every 2 weeks from ${friday} at 10:00?`],
    ['every other week on monday at 09:00', `${undated}did you mean every 2 weeks from ${monday} at 09:00?`],
    ['every second monday at 9', `${undated}did you mean every 2 weeks from ${monday} at 09:00?`],
    ['every 3 fridays', `${undated}did you mean every 3 weeks from ${friday} at 10:00?`],
    [
      'every 2 weeks on mon and fri from 2026-11-30 at 9',
      `${undated}did you mean every 2 weeks from 2026-11-30 on mon and fri at 09:00?`,
    ],
    ['every 2 weeks at 9 since 30 nov 2026', `${undated}did you mean every 2 weeks from 30 nov 2026 at 09:00?`],
    ['every 2 days at 03:00', `${undated}did you mean every 2 days from ${any} at 03:00?`],
    ['every third day in UTC', `${undated}did you mean every 3 days from ${any} at 10:00 in UTC?`],
    ['every 2 weeks', `${rare('2 weeks', '14days')}; did you mean every 2 weeks from ${any} at 10:00?`],
    ['every week', `${rare('week', 'weekly')}; did you mean weekly on monday at 10:00?`],
    ['every 48h', `${rare('48h', '2days')}.`],
    ['quarterly at 03:00', `it begins with "quarterly"; did you mean every 3 months from ${first(3)} at 03:00?`],
    [
      'quarterly on the 15th at 3am',
      `it begins with "quarterly"; did you mean every 3 months from ${first(3, 15)} at 03:00?`,
    ],
    ['every quarter', `${undated}did you mean every 3 months from ${first(3)} at 10:00?`],
    ['half-yearly', `it begins with "half"; did you mean every 6 months from ${first(6)} at 10:00?`],
  ])('%s', (text, fault) => {
    const parsed = parseSchedule(text, null);
    expect('problem' in parsed && parsed.problem).toBe(`The schedule ${JSON.stringify(text)} is wrong: ${fault}`);
  });
});

test('@timezone is the zone of a schedule that names none', async () => {
  expect(await timesOf('daily at 07:00', 'Europe/Berlin', 1)).toEqual(['11-23 06:00']);
  expect(await timesOf('0 7 * * *', 'Asia/Tokyo', 1)).toEqual(['11-23 22:00']);
  expect(await timesOf('every 2 hours in Asia/Kathmandu', null, 1)).toEqual(['11-23 00:15']);
});

describe('what is wrong is named, with its cure:', () => {
  const examples = 'daily at 02:30, weekly on monday at 07:00, every 2 hours or cron’s fields 0 7 * * 1';

  test.each([
    [
      'daily at 07:00 in UTC',
      'it ends in a time zone, and there is @timezone Europe/Berlin as well: keep one of the two.',
    ],
    ['', `it is empty: write ${examples}.`],
    ['hourly', 'did you mean every hour?'],
    ['hourly at 15', 'did you mean every hour?'],
    [
      'daily at 07:00 UTC',
      'it ends in a time zone, and there is @timezone Europe/Berlin as well: keep one of the two.',
    ],
    [
      'on monday at 07:00',
      'on needs days of the month such as on day 1 and 15 at 06:00, found "monday"; did you mean weekly on monday at 07:00?',
    ],
    ['each day at 7', 'it begins with "each"; did you mean daily at 07:00?'],
    ['7:00 daily', 'it does not say on which days; did you mean daily at 07:00?'],
    ['7am', 'it does not say on which days; did you mean daily at 07:00?'],
    ['monday 7:00', 'it begins with "monday"; did you mean weekly on monday at 07:00?'],
    ['every month', 'did you mean monthly on 1 at 10:00?'],
    ['daily um 7:00', 'daily needs a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin.'],
    [
      'weekdays from 09:00 to 17:00',
      'weekdays needs a time, such as weekdays at 08:00 or weekdays every 15min from 09:00 to 17:00.',
    ],
    [
      'yearly on february 14 at 20:00',
      'yearly needs a date such as yearly on 14 february at 20:00, found "february 14"; did you mean 14 february?',
    ],
    ['FINISHED, +1 HOUR', `finished counts from a job of the queue; for a script write ${examples}.`],
    ['weekly', 'weekly needs a day such as weekly on monday at 01:00.'],
    ['mondays at 07:00', 'it begins with "mondays"; did you mean weekly on monday at 07:00?'],
    ['everyday at 07:00', 'it begins with "everyday"; did you mean daily at 07:00?'],
    ['soon', `it begins with "soon"; write ${examples}.`],
    [
      'every 7min',
      'a day is not a multiple of 7min; write every 6min or every 8min, or every 7min from 00:00 to 23:59.',
    ],
    [
      'every 5 hours',
      'a day is not a multiple of 5 hours; write every 4 hours or every 6 hours, or every 5 hours from 00:00 to 23:59.',
    ],
    ['@reboot', '@reboot is not a time: a script that runs once after each boot has the tag @reboot alone.'],
    ['30 2 30 2 *', 'it never comes, as none of its months has such a day.'],
  ])('%j', (text, fault) => {
    expect(parseSchedule(text, 'Europe/Berlin')).toEqual({
      problem: `The schedule ${JSON.stringify(text)} is wrong: ${fault}`,
    });
  });

  test.each([
    ['daily at 07:00 UTC', 'daily at 07:00 in UTC'],
    ['each day at 7 UTC', 'daily at 07:00 in UTC'],
    ['0 7 * * 1 (Asia/Tokyo)', '0 7 * * 1 in Asia/Tokyo'],
  ])('%j lacks in', (text, meant) => {
    expect(parseSchedule(text, null)).toEqual({
      problem: `The schedule ${JSON.stringify(text)} is wrong: in stands before a time zone; did you mean ${meant}?`,
    });
  });

  test('a zone that there is not', () => {
    expect(parseSchedule('daily at 07:00', 'Europe/Berln')).toEqual({
      problem:
        'The schedule "daily at 07:00" is wrong: @timezone needs a time zone such as Europe/Berlin or UTC, ' +
        'found "Europe/Berln"; did you mean Europe/Berlin?',
    });
  });
});
