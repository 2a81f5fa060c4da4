import { expect, test } from 'vitest';
import { explainRepeat } from '../../../src/schedule/repeat/rule.ts';
import { ruleOf } from './support.ts';

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
