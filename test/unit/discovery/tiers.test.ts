import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import {
  defaultTimeoutMs,
  guessPeriodName,
  nextPeriodStart,
  periodStart,
  slotOf,
  tierPeriodMs,
} from '../../../src/schedule/period.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
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

const tiers = ['1min', '5min', '10min', '15min', '20min', '30min', 'hourly', '2hours', 'daily', 'weekly', 'monthly'];
const slotZones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'];

const slotInstants = fc.integer({ min: Date.UTC(2025, 0, 1), max: Date.UTC(2028, 0, 1) });
/** Of clocks that nobody sets, mostly round ones: a wrong time zone or a slip of who has set it. */
const skews = fc.oneof(
  fc.integer({ min: -5 * minute, max: 5 * minute }),
  fc.integer({ min: -10, max: 10 }).map((halves) => (halves * minute) / 2),
);
const jitters = fc.integer({ min: 0, max: 900 });

/** Wherever rounding changes, a clock that is wrong by just so much is now on this side of it, now on the other. */
function isAtEdge(tier: string, ownMs: number, aheadMs: number): boolean {
  return slotOf(tier, ownMs, aheadMs - 1_000) !== slotOf(tier, ownMs, aheadMs + 1_000);
}

describe.each(slotZones)('in %s', (zone) => {
  useZone(zone);

  test.each(tiers)('where the clock is right, a slot of %s is its period', (tier) => {
    fc.assert(
      fc.property(slotInstants, (at) => slotOf(tier, at, 0) === periodStart(tier, at)),
      { numRuns: tries(200) },
    );
  });

  test.each(tiers)('however wrong the clock is, call after call of %s has slot after slot', (tier) => {
    fc.assert(
      fc.property(slotInstants, skews, fc.array(jitters, { minLength: 6, maxLength: 6 }), (from, aheadMs, late) => {
        let ownMs = periodStart(tier, from) as number;
        let before: number | null = null;
        for (const jitter of late) {
          fc.pre(!isAtEdge(tier, ownMs, aheadMs));
          // Cron is late by a moment, and so may be the answer of the clock.
          const slot = slotOf(tier, ownMs + jitter, aheadMs + jitter / 2) as number;
          if (before !== null && slot !== nextPeriodStart(tier, before)) return false;
          before = slot;
          ownMs = nextPeriodStart(tier, ownMs) as number;
        }
        return true;
      }),
      { numRuns: tries(100) },
    );
  });
});

const at = (time: string): number => Date.parse(`2026-11-21T${time}Z`);

describe('by the fleet’s clock', () => {
  useZone('UTC');

  test.each([
    ['hourly', '12:00:00', 0, '12:00:00'],
    ['hourly', '12:00:00.010', 400, '12:00:00'],
    ['hourly', '12:00:00.010', -400, '12:00:00'],
    ['hourly', '12:00:00', 5 * minute, '12:00:00'],
    ['hourly', '12:00:00', -5 * minute, '12:00:00'],
    ['hourly', '12:59:59', 2 * minute, '12:00:00'],
    ['15min', '12:00:00', -5 * minute, '12:00:00'],
    ['15min', '12:00:00', 9 * minute, '12:15:00'],
    ['10min', '12:00:00', -5 * minute, '11:50:00'],
    ['10min', '12:00:00', 5 * minute, '12:00:00'],
    ['5min', '12:00:00', 5 * minute, '12:05:00'],
    ['5min', '12:00:00', 5 * minute - 300, '12:05:00'],
    ['1min', '12:00:00', -5 * minute, '11:55:00'],
    ['daily', '00:00:01', -5 * minute, '00:00:00'],
  ])('a call of %s at %s by a clock that is %i ms behind has the slot of %s', (tier, time, aheadMs, slot) => {
    expect(new Date(slotOf(tier, at(time), aheadMs) as number)).toEqual(new Date(at(slot)));
  });

  test('a tier without a period has no slot', () => {
    expect(slotOf('by-hand', at('12:00:00'), 0)).toBeNull();
    expect(slotOf('by-hand', at('12:00:00'), minute)).toBeNull();
  });
});

/** What is said of a script with this schedule in that tier. */
async function look(tier: string, tags: string) {
  const root = makeTemporaryRoot({ [`jobs/${tier}/a.sh`]: `#!/bin/sh\n${tags.replaceAll(/^/gm, '# ')}\nexit 0\n` });
  const { tiers } = await discover(root, defaultSettings);
  const { refusals = [], warnings = [] } = tiers[0]?.scripts[0] ?? {};
  return { refusals, warnings };
}

const fine = { refusals: [], warnings: [] };

test.each([
  ['hourly', '@schedule weekly on monday at 07:00'],
  ['daily', '@schedule daily at 02:30\n@timezone Europe/Berlin'],
  ['monthly', '@schedule monthly on the last friday at 06:00'],
  ['monthly', '@schedule monthly on 31 at 06:00'],
  ['weekly', '@schedule on day 1 and 15 at 06:00'],
  ['yearly', '@schedule 0 0 29 2 *'],
  ['15min', '@schedule weekdays every 15min from 09:00 to 17:00'],
])('in jobs/%s a script may say %s', async (tier, tags) => {
  expect(await look(tier, tags)).toEqual(fine);
});

test.each([
  ['hourly', 'every 5min', '5min'],
  ['hourly', '*/20 * * * *', '15min'],
  ['daily', 'daily at 06:00 and 18:00', 'hourly'],
  ['weekly', 'weekly on monday and thursday at 06:00', 'daily'],
  ['monthly', 'on day 1 and 15 at 06:00', 'weekly'],
  ['5min', 'every 2 minutes', '2min'],
])('in jobs/%s a schedule %s is refused, with the tier that would do: %s', async (tier, schedule, better) => {
  expect((await look(tier, `@schedule ${schedule}`)).refusals).toEqual([
    `its schedule "${schedule}" is more frequent than jobs/${tier}: move it to jobs/${better}`,
  ]);
});

test('a schedule that cannot be read is refused, with what was meant', async () => {
  const { refusals } = await look('hourly', '@schedule dayly at 05:00');
  expect(refusals).toEqual([expect.stringMatching(/^its schedule "dayly at 05:00" is wrong: .*daily/)]);
});

test('in a tier that cron does not call, a schedule has a warning', async () => {
  const { refusals, warnings } = await look('nightly', '@schedule daily at 05:00');
  expect(refusals).toEqual([]);
  expect(warnings).toEqual([expect.stringContaining('cron does not call jobs/nightly')]);
});

test('a time zone without a schedule is pointed out', async () => {
  expect(await look('hourly', '@timezone Europe/Berlin')).toEqual({
    refusals: [],
    warnings: ['jobs/hourly/a.sh: @timezone has no effect without @schedule; add one such as @schedule daily at 02:30'],
  });
});

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
