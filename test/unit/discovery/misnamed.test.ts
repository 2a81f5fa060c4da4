import { expect, test } from 'vitest';
import { guessPeriodName, tierPeriodMs } from '../../../src/schedule/period.ts';

test.each([
  ['houry', 'hourly'],
  ['Hourly', 'hourly'],
  ['hour', 'hourly'],
  ['1hour', 'hourly'],
  ['every-hour', 'hourly'],
  ['once_an_hour', 'hourly'],
  ['cron.hourly', 'hourly'],
  ['@hourly', 'hourly'],
  ['daily2', 'daily'],
  ['day', 'daily'],
  ['dayly', 'daily'],
  ['everyday', 'daily'],
  ['nightly', 'daily'],
  ['week', 'weekly'],
  ['montly', 'monthly'],
  ['annually', 'yearly'],
  ['5m', '5min'],
  ['15mins', '15min'],
  ['15 minutes', '15min'],
  ['15', '15min'],
  ['min15', '15min'],
  ['every5min', '5min'],
  ['half-hourly', '30min'],
  ['2hour', '2hours'],
  ['6h', '6hours'],
  ['3-days', '3days'],
  ['2weeks', '14days'],
  ['biweekly', '14days'],
  ['quarterly', '90days'],
])('jobs/%s was probably meant to be jobs/%s', (name, guess) => {
  expect(guessPeriodName(name)).toBe(guess);
  expect(tierPeriodMs(guess)).not.toBeNull();
});

test.each([
  ...['15min', 'hourly', '7days', 'yearly'],
  ...['manual', 'by-hand', 'deploy', 'tools', 'lib', 'once', 'early', 'family', 'reports', 'monday', 'weekend'],
  ...['0min', '999999days', '2024', 'v2', 's3', 'web1'],
])('nothing is said of jobs/%s', (name) => {
  expect(guessPeriodName(name)).toBeNull();
});
