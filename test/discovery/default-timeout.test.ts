import { expect, test } from 'vitest';
import { defaultTimeoutMs } from '../../src/schedule/period.ts';

test.each([
  ['15min', 900_000],
  ['hourly', 3_600_000],
  ['daily', 3_600_000],
  ['by-hand', 3_600_000],
])('a script of the tier %s has %i ms', (tier, timeoutMs) => {
  expect(defaultTimeoutMs(tier)).toBe(timeoutMs);
});
