import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseRepeat } from '../../../src/schedule/repeat/grammar/parse.ts';
import type { RepeatRule } from '../../../src/schedule/repeat/rule.ts';
import { tries } from '../../support/tries.ts';
import { problemOf, ruleOf } from './support.ts';

const moment = (text: string, base: string, ...modifiers: readonly object[]) => ({
  kind: 'moment',
  text,
  base,
  modifiers,
});
const add = (count: number, unit: string) => ({ kind: 'add', count, unit });

describe('the grammar of Bedrock is read:', () => {
  test.each([
    ['hourly', moment('HOURLY', 'finished', add(1, 'hour'))],
    ['DAILY', moment('DAILY', 'finished', add(1, 'day'))],
    ['Weekly', moment('WEEKLY', 'finished', add(7, 'day'))],
    [
      'Started,-10 minutes, START of hour,weekday 3,,',
      moment(
        'STARTED,-10 MINUTES, START OF HOUR,WEEKDAY 3,,',
        'started',
        add(-10, 'minute'),
        { kind: 'start-of', unit: 'hour' },
        { kind: 'weekday', weekday: 3 },
      ),
    ],
    ['SCHEDULED, -000 YEARS', moment('SCHEDULED, -000 YEARS', 'scheduled', add(0, 'year'))],
  ])('%s', (text, rule) => {
    expect(parseRepeat(text)).toStrictEqual({ rule });
  });
});

const calendar = (text: string, on: object, hour: number, minute: number, zone: string | null) => ({
  kind: 'calendar',
  text,
  on,
  times: [hour * 60 + minute],
  zone,
});

describe('plain words are read:', () => {
  test.each([
    ['every 90 seconds', { ...moment('every 90 seconds', 'finished', add(90, 'second')), isDelay: true }],
    ['Every  15 Minutes ', { ...moment('every 15 minutes', 'finished', add(15, 'minute')), isDelay: true }],
    ['every hour', { ...moment('every hour', 'finished', add(1, 'hour')), isDelay: true }],
    ['every 2 weeks', { ...moment('every 2 weeks', 'finished', add(14, 'day')), isDelay: true }],
    ['daily at 10:00', calendar('daily at 10:00', { period: 'daily' }, 10, 0, null)],
    [
      ' DAILY at 9:05  in  Europe/Berlin',
      calendar('daily at 09:05 in Europe/Berlin', { period: 'daily' }, 9, 5, 'Europe/Berlin'),
    ],
    [
      'weekly on Monday at 01:00',
      calendar('weekly on monday at 01:00', { period: 'weekly', weekdays: [1] }, 1, 0, null),
    ],
    ['weekly on sun at 23:59', calendar('weekly on sun at 23:59', { period: 'weekly', weekdays: [7] }, 23, 59, null)],
    ['monthly on 1 at 00:00', calendar('monthly on 1 at 00:00', { period: 'monthly', days: [1] }, 0, 0, null)],
    [
      'monthly on last at 00:00 in UTC',
      calendar('monthly on last at 00:00 in UTC', { period: 'monthly', days: [31] }, 0, 0, 'UTC'),
    ],
    [
      'yearly on 14 February at 20:00',
      calendar('yearly on 14 february at 20:00', { period: 'yearly', month: 2, day: 14 }, 20, 0, null),
    ],
    [
      'yearly on 29 feb at 20:00',
      calendar('yearly on 29 feb at 20:00', { period: 'yearly', month: 2, day: 29 }, 20, 0, null),
    ],
  ])('%s', (text, rule) => {
    expect(parseRepeat(text)).toStrictEqual({ rule });
  });
});

describe('what is wrong is named, with its cure:', () => {
  const noModifier =
    'is not understood: a modifier is +N or -N SECONDS, MINUTES, HOURS, DAYS, MONTHS or YEARS, START OF HOUR, DAY, MONTH or YEAR, or WEEKDAY 0 (Sunday) to 6.';
  const noEvery =
    'every needs a whole number from 1 to 99999999 and seconds, minutes, hours, days or weeks; for a time of the day write a rule such as daily at 10:00 or weekly on monday at 01:00.';

  test.each([
    ['', 'it is empty: write a rule such as FINISHED, +1 HOUR or daily at 10:00.'],
    ['finishd, +1 hour', 'it begins with "finishd"; did you mean FINISHED?'],
    ['dayly', 'it begins with "dayly"; did you mean DAILY?'],
    ['daily ', 'DAILY stands alone, without blanks or anything else around it.'],
    ['FINISHED , +1 HOUR', 'there is a blank behind FINISHED: remove it.'],
    ['Finished', 'it does not say how long after: write Finished, +1 HOUR or the like.'],
    ['+1 hour', 'it does not say from when: write FINISHED, +1 HOUR or SCHEDULED, +1 HOUR.'],
    ['FINISHED, +1 DAY, 1 hour', 'its modifier 2, "1 hour", lacks its sign: begin it with + or -.'],
    ['FINISHED, + 1 HOUR', 'its modifier 1, "+ 1 HOUR", has a blank behind its sign: remove it.'],
    ['FINISHED, +1 HOUR ', 'its modifier 1, "+1 HOUR ", ends in a blank: remove it.'],
    ['FINISHED, +1  HOUR', 'its modifier 1, "+1  HOUR", has more than one blank in it.'],
    ['FINISHED, +1HOUR', 'its modifier 1, "+1HOUR", lacks the blank between number and unit.'],
    ['FINISHED, +1.5 HOURS', 'its modifier 1, "+1.5 HOURS", is not a whole number: take a smaller unit.'],
    ['FINISHED, +1 WEEK', 'its modifier 1, "+1 WEEK", has an unknown unit: 1 week is +7 DAYS.'],
    ['FINISHED, +1000 DAYS', 'its modifier 1, "+1000 DAYS", is too large: at most 999, or several modifiers.'],
    ['FINISHED, +100000000 SECONDS', 'its modifier 1, "+100000000 SECONDS", is too large: at most 99999999 seconds.'],
    ['FINISHED, WEEKDAY MONDAY', 'its modifier 1, "WEEKDAY MONDAY", needs a number from 0 (Sunday) to 6 (Saturday).'],
    ['FINISHED, START OF MINUTE', 'its modifier 1, "START OF MINUTE", needs HOUR, DAY, MONTH or YEAR.'],
    [
      'FINISHED, START OF WEEK',
      'its modifier 1, "START OF WEEK", is not possible: a week begins with WEEKDAY 0 or WEEKDAY 1, START OF DAY.',
    ],
    ['FINISHED, LOCALTIME', 'its modifier 1, "LOCALTIME", is not possible: rules with modifiers are in UTC.'],
    ['SCHEDULED, STARTED, +1 HOUR', 'its modifier 1, "STARTED", is a base: a rule has one, at its beginning.'],
    ['FINISHED, DAILY', 'its modifier 1, "DAILY", stands alone: it is a rule by itself.'],
    [
      'FINISHED,\t+1 DAY',
      'its modifier 1, "\\t+1 DAY", has a tab or a line break in it: only blanks are possible, and not at its end.',
    ],
    ['FINISHED, soon', `its modifier 1, "soon", ${noModifier}`],
    [
      'everything',
      'it begins with "everything", but a rule begins with SCHEDULED, STARTED or FINISHED, or with every, daily, weekly, monthly or yearly, or is just HOURLY, DAILY or WEEKLY.',
    ],
    ['every', noEvery],
    ['every 0 seconds', noEvery],
    ['every 1.5 hours', noEvery],
    ['every day at 10:00', 'did you mean daily at 10:00?'],
    ['every 90 fortnights and a day', noEvery],
    [
      'every 5 minutes in UTC',
      'every needs no time zone; for a time of the day write a rule such as daily at 10:00 or weekly on monday at 01:00.',
    ],
    ['every 36526 days', 'every allows at most 36525 days (100 years).'],
    ['daily at', 'daily needs a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin.'],
    ['daily on monday at 10:00', 'daily needs a time and perhaps a zone, such as daily at 10:00 in Europe/Berlin.'],
    ['daily at 24:00', 'at needs a time from 00:00 to 23:59, found "24:00".'],
    ['daily at 10am', 'at needs a time from 00:00 to 23:59, found "10am"; did you mean 10:00?'],
    ['weekly at 10:00', 'weekly needs a day such as weekly on monday at 01:00.'],
    [
      'weekly on moonday at 10:00',
      'weekly needs a day such as weekly on monday at 01:00, found "moonday"; did you mean monday?',
    ],
    ['weekly on monday', 'it needs a time at its end, such as at 10:00.'],
    ['monthly', 'monthly needs a day from 1 to 31 or last, such as monthly on 1 at 00:00.'],
    ['monthly on 32 at 10:00', 'monthly needs a day from 1 to 31 or last, such as monthly on 1 at 00:00, found "32".'],
    ['monthly on 0 at 10:00', 'monthly needs a day from 1 to 31 or last, such as monthly on 1 at 00:00, found "0".'],
    [
      'yearly on 30 february at 20:00',
      'yearly needs a date such as yearly on 14 february at 20:00, found "30 february".',
    ],
    ['yearly on february at 20:00', 'yearly needs a date such as yearly on 14 february at 20:00, found "february".'],
    [
      'daily at 10:00 in berlin',
      'in needs a time zone such as Europe/Berlin or UTC, found "berlin"; did you mean Europe/Berlin?',
    ],
    [
      'daily at 10:00 in Europe/Berln',
      'in needs a time zone such as Europe/Berlin or UTC, found "Europe/Berln"; did you mean Europe/Berlin?',
    ],
    [
      'daily at 10:00 in new york',
      'in needs a time zone such as Europe/Berlin or UTC, found "new york"; did you mean America/New_York?',
    ],
    ['daily at 10:00 in Xyzzy', 'in needs a time zone such as Europe/Berlin or UTC, found "Xyzzy".'],
  ])('%j', (text, fault) => {
    expect(problemOf(text)).toBe(`The repeat rule ${JSON.stringify(text)} is wrong: ${fault}`);
  });

  test('a long rule is not repeated as a whole', () => {
    expect(problemOf(`FINISHED${' '.repeat(900)}`)?.length).toBeLessThan(250);
    expect(problemOf('x'.repeat(1001))).toBe(
      'The repeat rule is too long: it has 1001 characters, at most 1000 are possible.',
    );
  });
});

const anyText = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc
    .array(
      fc.constantFrom(
        'FINISHED',
        'every',
        'daily',
        'monthly',
        ' on ',
        ' at ',
        '10:00',
        ' in ',
        'UTC',
        ', ',
        '+1 HOUR',
        ' ',
        '7',
        'last',
        'every 2 weeks from 2026-11-30',
        ' working day',
        ' except a.txt',
        ' between 22:00 and 05:00',
        ' between ',
      ),
      { maxLength: 8 },
    )
    .map((words) => words.join('')),
);

test('any text is a rule or has a problem, and a rule’s text is read as the same rule', () => {
  const withoutText = ({ text: _, ...rest }: RepeatRule) => rest;
  fc.assert(
    fc.property(anyText, (text) => {
      const parsed = parseRepeat(text);
      if ('problem' in parsed) expect(parsed.problem).toMatch(/^The repeat rule .+[.?]$/s);
      else expect(withoutText(ruleOf(parsed.rule.text))).toEqual(withoutText(parsed.rule));
    }),
    { numRuns: tries(5000) },
  );
});
