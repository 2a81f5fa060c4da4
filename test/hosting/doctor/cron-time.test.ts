import { expect, test } from 'vitest';
import { readCronGapMs } from '../../../src/hosting/doctor/cron-time.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test.each([
  ['* * * * *', HOUR / 60],
  ['*/15 * * * *', HOUR / 4],
  ['7-59/15 * * * *', HOUR / 4],
  ['*/45 * * * *', (HOUR / 60) * 45],
  ['5,35 * * * *', HOUR / 2],
  ['5,10 * * * *', (HOUR / 60) * 55],
  ['0 * * * *', HOUR],
  ['@hourly', HOUR],
  ['0 8-18 * * *', 14 * HOUR],
  ['30 4 * * *', DAY],
  ['@midnight', DAY],
  ['30 4 * * 1', 7 * DAY],
  ['30 4 * * 7', 7 * DAY],
  ['30 4 * * sun', 7 * DAY],
  ['30 4 * * 5-7', 5 * DAY],
  ['30 4 * * Mon-Fri', 3 * DAY],
  ['0 0 1 * *', 31 * DAY],
  ['0 0 31 * *', 61 * DAY],
  ['0 0 1 jan,Jul *', 184 * DAY],
  ['@yearly', 366 * DAY],
  ['0 0 29 2 *', (4 * 365 + 1) * DAY],
  // Either the first or a Monday; both of them where one begins with a star.
  ['0 0 1 * 1', 7 * DAY],
  ['0 0 */31 * 1', 427 * DAY],
  ['@reboot', Number.POSITIVE_INFINITY],
  ['0~59 * * * *', null],
])('%s comes again after %s ms at most', (time, value) => {
  expect(readCronGapMs(time)).toEqual({ value });
});

test.each([
  ['61 * * * *', /^its minute to be from 0 to 59/],
  ['*/0 * * * *', /^its minute /],
  ['5/15 * * * *', /^its minute /],
  ['-5 * * * *', /^its minute /],
  ['0x5 * * * *', /^its minute /],
  ['1,,2 * * * *', /^its minute /],
  ['feb * * * *', /^its minute /],
  ['0 24 * * *', /^its hour to be from 0 to 23/],
  ['0 22-2 * * *', /^its hour /],
  ['0 0 0 * *', /^its day to be from 1 to 31/],
  ['0 0 * 13 *', /^its month to be from 1 to 12 \(or jan to dec\)/],
  ['0 0 * * 8', /^its weekday to be from 0 to 7 \(or sun to sat\)/],
  ['0 0 * * monday', /^its weekday /],
  ['0 0 * * /usr/bin/node', /^its weekday /],
  ['0 0 30 feb *', /^a day that its month has$/],
  ['@dayly', /^@reboot, @hourly, @daily, /],
])('%s is no time', (time, expected) => {
  expect(readCronGapMs(time)).toEqual({ expected: expect.stringMatching(expected) });
});
