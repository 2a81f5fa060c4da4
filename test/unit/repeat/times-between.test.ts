import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { latestTime, nextTimeAfter, shortestGapMs } from '../../../src/schedule/repeat/calendar.ts';
import { type CalendarRule, formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { tries } from '../../support/tries.ts';
import { at, calendarOf } from './support.ts';

async function latest(rule: string, after: string, upTo: string): Promise<string | null> {
  const found = await latestTime(calendarOf(rule), { afterMs: at(after), upToMs: at(upTo) });
  return found === null ? null : formatInstant(found).slice(0, 16);
}

describe('the latest time after one moment and up to another:', () => {
  test.each([
    ['daily at 10:00 in UTC', '2026-03-10 09:00', '2026-03-10 10:00', '2026-03-10 10:00'],
    ['daily at 10:00 in UTC', '2026-03-10 10:00', '2026-03-11 09:59', null],
    ['daily at 10:00 in UTC', '2026-03-10 09:00', '2026-03-10 09:59', null],
    ['daily at 10:00 in UTC', '2020-01-01', '2026-03-10 09:59', '2026-03-09 10:00'],
    ['daily at 02:30 in Europe/Berlin', '2026-03-29 00:59', '2026-03-29 01:00', '2026-03-29 01:00'],
    ['daily at 02:30 in Europe/Berlin', '2026-10-25 00:00', '2026-10-25 23:00', '2026-10-25 00:30'],
    ['weekly on monday at 07:00 in Europe/Berlin', '2026-11-01', '2026-11-30 05:59', '2026-11-23 06:00'],
    ['monthly on last at 18:00 in UTC', '2028-01-31 18:00', '2028-02-29 18:00', '2028-02-29 18:00'],
    ['monthly on 31 at 18:00 in UTC', '2026-01-01', '2026-03-01', '2026-02-28 18:00'],
    ['yearly on 29 february at 06:00 in UTC', '1970-01-01', '2026-11-23', '2026-02-28 06:00'],
    ['every 15min from 09:00 to 17:00 in UTC', '2026-03-09 17:00', '2026-03-10 08:59', null],
    ['every 15min from 09:00 to 17:00 in UTC', '2026-03-09 16:00', '2026-03-10 08:59', '2026-03-09 17:00'],
    ['every 3h from 21:00 to 06:00 in UTC', '2026-03-09', '2026-03-10 04:00', '2026-03-10 03:00'],
    ['*/15 * * * * in Europe/Berlin', '2026-10-25 00:50', '2026-10-25 01:10', '2026-10-25 01:00'],
    ['*/15 2 * * * in Europe/Berlin', '2026-03-28 02:00', '2026-03-29 23:59', null],
    ['0 6 29 2 * in UTC', '1970-01-01', '2026-11-23', '2024-02-29 06:00'],
    ['daily at 10:00 in Pacific/Apia', '2011-12-30 09:59', '2011-12-30 10:00', '2011-12-30 10:00'],
  ])('%s, after %s up to %s', async (rule, after, upTo, expected) => {
    expect(await latest(rule, after, upTo)).toBe(expected);
  });
});

describe('the shortest time between two times:', () => {
  const hourMs = 3_600_000;

  test.each([
    ['daily at 10:00', 24],
    ['weekly on monday at 10:00', 7 * 24],
    ['monthly on 1 at 10:00', 28 * 24],
    ['monthly on 31 at 10:00', 28 * 24],
    ['yearly on 14 february at 10:00', 365 * 24],
    ['daily at 02:30 and 14:30', 12],
    ['daily at 23:00 and 01:00', 2],
    ['weekly on mon, wed and fri at 07:00', 48],
    ['weekdays at 08:00', 24],
    ['on day 1 and 15 at 06:00', 14 * 24],
    ['monthly on the last friday at 18:00', 28 * 24],
    ['weekdays every 15min from 09:00 to 17:00', 0.25],
    ['every 3h from 21:00 to 06:00', 3],
    ['0 7 * * 1', 7 * 24],
    ['*/5 8-18 * * *', 5 / 60],
    ['*/7 * * * *', 4 / 60],
    ['0 6 29 2 *', 1461 * 24],
  ])('%s', (rule, hours) => {
    expect(shortestGapMs(calendarOf(rule), at('2026-11-23')) / hourMs).toBe(hours);
  });
});

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'Africa/Cairo'];

const anyRule = fc
  .record({
    days: fc.constantFrom('daily', 'weekly on sunday', 'monthly on 31', 'monthly on 15', 'yearly on 29 february'),
    hour: fc.integer({ min: 0, max: 23 }),
    minute: fc.integer({ min: 0, max: 59 }),
    zone: fc.constantFrom(...zones),
  })
  .map(({ days, hour, minute, zone }) =>
    calendarOf(`${days} at ${hour}:${String(minute).padStart(2, '0')} in ${zone}`),
  );

const anyInterval = fc
  .record({
    rule: fc.constantFrom(
      'weekdays every 15min from 01:30 to 03:30',
      'every 3h from 21:00 to 06:00',
      '*/20 1-3 * * *',
      '0 */2 */2 * sun',
      '30 2 29 2 *',
      '10,50 0,2,23 1,31 * fri',
      'monthly on the last sunday at 01:30, 02:30 and 03:00',
    ),
    zone: fc.constantFrom(...zones),
  })
  .map(({ rule, zone }) => calendarOf(`${rule} in ${zone}`));

const anyMoment = fc.integer({ min: at('2012-01-01'), max: at('2037-01-01') });

test('what comes next is the latest once it has come, and nothing lies in between', async () => {
  const check = async (rule: CalendarRule, afterMs: number): Promise<void> => {
    const nextMs = (await nextTimeAfter(rule, afterMs)) as number;
    expect(nextMs).toBeGreaterThan(afterMs);
    expect(await latestTime(rule, { afterMs, upToMs: nextMs })).toBe(nextMs);
    expect(await latestTime(rule, { afterMs, upToMs: nextMs - 1 })).toBeNull();
    const furtherMs = (await nextTimeAfter(rule, nextMs)) as number;
    expect(await latestTime(rule, { afterMs, upToMs: furtherMs - 1 })).toBe(nextMs);
  };
  await fc.assert(fc.asyncProperty(fc.oneof(anyRule, anyInterval), anyMoment, check), { numRuns: tries(2000) });
});
