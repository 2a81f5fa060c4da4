import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultTimeoutMs, nextPeriodStart, periodStart, tierPeriodMs } from '../../../src/schedule/period.ts';
import { tries } from '../../support/tries.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

test.each([
  ['15min', 15 * minute],
  ['1min', minute],
  ['90min', 90 * minute],
  ['hourly', hour],
  ['2hours', 2 * hour],
  ['daily', day],
  ['3days', 3 * day],
  ['weekly', 7 * day],
  ['monthly', 30 * day],
  ['yearly', 365 * day],
  ['366days', 366 * day],
])('the tier %s has a period', (name, periodMs) => {
  expect(tierPeriodMs(name)).toBe(periodMs);
});

test.each([
  '0min',
  '00min',
  '015min',
  '-1min',
  '1.5hours',
  '367days',
  '9999999min',
  '99999999999999999999days',
  'min',
  'hours',
  '15minutes',
  '15 min',
  'Hourly',
  'hourly ',
  '2weeks',
  'reports',
  '',
  'constructor',
])('the tier %j has none', (name) => {
  expect(tierPeriodMs(name)).toBeNull();
  expect(periodStart(name, 0)).toBeNull();
});

/** Half-hour offsets, clock changes at midnight, at 01:00, of half an hour, and none. */
const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Santiago',
  'America/Havana',
  'Africa/Cairo',
  'Australia/Lord_Howe',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'America/St_Johns',
  'Pacific/Apia',
];

const names = [
  '1min',
  '5min',
  '7min',
  '15min',
  '45min',
  '90min',
  'hourly',
  '2hours',
  '5hours',
  '36hours',
  'daily',
  '2days',
  '10days',
  '45days',
  'weekly',
  'monthly',
  'yearly',
];

function useZone(zone: string): void {
  const before = process.env.TZ;
  beforeAll(() => {
    process.env.TZ = zone;
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });
}

// What `expect` would say of 150,000 of them takes longer than they do; fast-check tells which is wrong.
const instants = fc.integer({ min: Date.UTC(2015, 0, 1), max: Date.UTC(2035, 0, 1) });

describe.each(zones)('in %s', (zone) => {
  useZone(zone);

  test.each(names)('a period of %s begins at or before each of its instants, and at its own beginning', (name) => {
    const longestMs = 1.05 * (tierPeriodMs(name) ?? 0) + day + hour;
    fc.assert(
      fc.property(instants, (instant) => {
        const start = periodStart(name, instant) ?? Number.NaN;
        return start <= instant && instant - start < longestMs && periodStart(name, start) === start;
      }),
      { numRuns: tries(300) },
    );
  });

  test.each(names)('the next period of %s begins where the one before ends', (name) => {
    fc.assert(
      fc.property(instants, (instant) => {
        const next = nextPeriodStart(name, instant) ?? Number.NaN;
        const isOwn = periodStart(name, next) === next;
        return next > instant && isOwn && periodStart(name, next - 1) === periodStart(name, instant);
      }),
      { numRuns: tries(300) },
    );
  });

  test.each(names)('a later instant is never in an earlier period of %s', (name) => {
    fc.assert(
      fc.property(instants, fc.integer({ min: 0, max: 3 * day }), (instant, laterMs) => {
        const [start, later] = [periodStart(name, instant), periodStart(name, instant + laterMs)];
        return (later ?? Number.NaN) >= (start ?? Number.NaN);
      }),
      { numRuns: tries(300) },
    );
  });
});

describe('in Europe/Berlin', () => {
  useZone('Europe/Berlin');

  test.each([
    ['15min', '2026-11-21T10:44:59.999+01:00', '2026-11-21T10:30:00+01:00'],
    ['45min', '2026-11-21T02:00:00+01:00', '2026-11-21T01:30:00+01:00'],
    // What divides no day counts from 1970, as its crontab line does.
    ['7min', '2026-11-21T10:59:00+01:00', '2026-11-21T10:55:00+01:00'],
    ['7min', '2026-11-21T11:00:00+01:00', '2026-11-21T10:55:00+01:00'],
    ['hourly', '2026-11-21T10:44:00+01:00', '2026-11-21T10:00:00+01:00'],
    ['6hours', '2026-11-21T10:44:00+01:00', '2026-11-21T06:00:00+01:00'],
    ['5hours', '2026-11-21T23:44:00+01:00', '2026-11-21T23:00:00+01:00'],
    ['daily', '2026-11-21T00:00:00+01:00', '2026-11-21T00:00:00+01:00'],
    ['2days', '2026-11-22T10:00:00+01:00', '2026-11-21T00:00:00+01:00'],
    ['weekly', '2026-11-21T10:00:00+01:00', '2026-11-15T00:00:00+01:00'],
    ['weekly', '2026-11-22T10:00:00+01:00', '2026-11-22T00:00:00+01:00'],
    ['monthly', '2026-11-30T23:59:00+01:00', '2026-11-01T00:00:00+01:00'],
    ['monthly', '2026-10-30T23:59:00+01:00', '2026-10-01T00:00:00+02:00'],
    ['yearly', '2026-07-01T10:00:00+02:00', '2026-01-01T00:00:00+01:00'],
    // The clock goes from 02:00 to 03:00 on 29 March, and from 03:00 back to 02:00 on 25 October.
    ['daily', '2026-03-29T12:00:00+02:00', '2026-03-29T00:00:00+01:00'],
    ['2hours', '2026-03-29T03:30:00+02:00', '2026-03-29T03:00:00+02:00'],
    ['hourly', '2026-10-25T02:30:00+02:00', '2026-10-25T02:00:00+02:00'],
    ['hourly', '2026-10-25T02:30:00+01:00', '2026-10-25T02:00:00+01:00'],
    ['15min', '2026-10-25T02:20:00+01:00', '2026-10-25T02:15:00+01:00'],
    ['3hours', '2026-10-25T02:30:00+01:00', '2026-10-25T00:00:00+02:00'],
    ['daily', '2026-10-25T12:00:00+01:00', '2026-10-25T00:00:00+02:00'],
  ])('the period of %s at %s began at %s', (name, instant, start) => {
    const found = periodStart(name, Date.parse(instant)) ?? Number.NaN;
    expect(new Date(found).toISOString()).toBe(new Date(start).toISOString());
  });
});

describe('in America/Havana', () => {
  useZone('America/Havana');

  test('a day with two midnights begins at the first', () => {
    const noon = Date.parse('2026-11-01T12:00:00-05:00');
    expect(periodStart('daily', noon)).toBe(Date.parse('2026-11-01T00:00:00-04:00'));
  });

  test('a period whose beginning the clock skips begins with the change of the clock', () => {
    const change = Date.parse('2031-03-09T01:00:00-04:00');
    expect(periodStart('45min', change)).toBe(change);
    expect(periodStart('45min', change - 1)).toBe(Date.parse('2031-03-08T23:15:00-05:00'));
  });

  test('a day without midnight begins at one', () => {
    const noon = Date.parse('2026-03-08T12:00:00-04:00');
    expect(periodStart('daily', noon)).toBe(Date.parse('2026-03-08T01:00:00-04:00'));
  });
});

test.each([
  ['15min', 900_000],
  ['hourly', 3_600_000],
  ['daily', 3_600_000],
  ['by-hand', 3_600_000],
])('a script of the tier %s has %i ms', (tier, timeoutMs) => {
  expect(defaultTimeoutMs(tier)).toBe(timeoutMs);
});
