import { expect, test } from 'vitest';
import { parseCronPeriod } from '../../../src/hosting/crontab/times.ts';

test.each([
  ['15min', { unit: 'minute', step: 15, nth: 1 }],
  ['1min', { unit: 'minute', step: 1, nth: 1 }],
  ['hourly', { unit: 'hour', step: 1, nth: 1 }],
  ['60min', { unit: 'hour', step: 1, nth: 1 }],
  ['2hours', { unit: 'hour', step: 2, nth: 1 }],
  ['120min', { unit: 'hour', step: 2, nth: 1 }],
  ['24hours', { unit: 'day', step: 1, nth: 1 }],
  ['1440min', { unit: 'day', step: 1, nth: 1 }],
  ['daily', { unit: 'day', step: 1, nth: 1 }],
  ['weekly', { unit: 'week', step: 1, nth: 1 }],
  ['monthly', { unit: 'month', step: 1, nth: 1 }],
  ['yearly', { unit: 'year', step: 1, nth: 1 }],
])('%s is a period that cron itself can say', (tier, period) => {
  expect(parseCronPeriod(tier)).toEqual(period);
});

test.each([
  ['7min', { unit: 'minute', step: 1, nth: 7 }],
  ['45min', { unit: 'minute', step: 15, nth: 3 }],
  ['90min', { unit: 'minute', step: 30, nth: 3 }],
  ['5hours', { unit: 'hour', step: 1, nth: 5 }],
  ['36hours', { unit: 'hour', step: 12, nth: 3 }],
  ['3days', { unit: 'day', step: 1, nth: 3 }],
  ['72hours', { unit: 'day', step: 1, nth: 3 }],
])('%s is a period that takes each nth of more frequent times', (tier, period) => {
  expect(parseCronPeriod(tier)).toEqual(period);
});

test.each(['manual', 'queue', '0min', 'min', '15 min', 'constructor', '99999days', ''])('%j has no period', (tier) => {
  expect(parseCronPeriod(tier)).toBeNull();
});
