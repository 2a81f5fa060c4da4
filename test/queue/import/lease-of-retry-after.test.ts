import { expect, test } from 'vitest';
import { leaseOfRetryAfter } from '../../../src/queue/import/lease-of-retry-after.ts';

test.each([
  ['+5 SECOND', 5_000],
  ['+10 HOUR', 36_000_000],
  ['+5 minutes', 300_000],
  ['+1 HOUR, +30 MINUTES', 5_400_000],
  ['+1 HOUR,-10 MINUTES', 3_000_000],
  ['+2 DAYS', 172_800_000],
  ['', null],
  ['10', null],
  ['+1 MONTH', null],
  ['+1 HOUR, +1 MONTH', null],
  ['+1 DAY, START OF DAY', null],
  ['WEEKDAY 1', null],
  ['-5 MINUTES', null],
  ['+5 MINUTES, -5 MINUTES', null],
])('%j is a lease of %s ms', (retryAfter, leaseMs) => {
  expect(leaseOfRetryAfter(retryAfter)).toBe(leaseMs);
});
