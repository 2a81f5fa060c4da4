import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CrontabLine,
  type CrontabTimes,
  expectByCrontab,
  findMissedByCrontab,
  isRegularCall,
  type Sieve,
} from '../../../src/schedule/crontab-times.ts';
import { expectCall, findMissedPasses, type PreviousCall } from '../../../src/schedule/expected-call.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const at = (time: string, day = '2026-11-03'): number => new Date(`${day}T${time}`).getTime();
const line = (times: string, calls: string, sieve: Sieve | null = null): CrontabLine => ({
  calls,
  times,
  zone: null,
  sieve,
});
const crontab = (lines: readonly CrontabLine[], changed: string | null = null): CrontabTimes => ({
  lines,
  changedAtMs: changed === null ? null : at(changed),
  // Periods begin by the clock of this process; a machine has one zone for both.
  zone: new Intl.DateTimeFormat().resolvedOptions().timeZone,
});
const calledAt = (time: string, isDue = false) => ({ atMs: at(time), isDue });

test('the next call is the next time of the line, whenever the last one was', async () => {
  const lines = crontab([line('13 * * * *', 'hourly'), line('6 4 * * *', 'daily')]);
  const next = async (tier: string, last: string, now: string) =>
    (await expectByCrontab(tier, calledAt(last), lines, at(now))).expected;
  expect(await next('hourly', '10:13:01', '10:20:00')).toEqual({ atMs: at('11:13:00'), isOverdue: false });
  expect(await next('hourly', '09:50:00', '10:05:00')).toEqual({ atMs: at('10:13:00'), isOverdue: false });
  expect(await next('hourly', '09:50:00', '10:20:00')).toEqual({ atMs: at('10:13:00'), isOverdue: false });
  expect(await next('hourly', '09:50:00', '10:44:00')).toEqual({ atMs: at('10:13:00'), isOverdue: true });
  expect(await next('daily', '04:06:01', '10:00:00')).toEqual({ atMs: at('04:06:00') + DAY, isOverdue: false });
});

test("cron goes by its machine's zone", async () => {
  const inTokyo = { ...crontab([line('0 9 * * *', 'daily')]), zone: 'Asia/Tokyo' };
  const { expected } = await expectByCrontab('daily', null, inTokyo, Date.parse('2026-11-03T10:00:00Z'));
  expect(expected?.atMs).toBe(Date.parse('2026-11-04T00:00:00Z'));
});

describe('where CRON_TZ stands above a line', () => {
  const utc = (time: string) => Date.parse(`${time}:00Z`);
  const inBerlin = (times: string, tier: string) => ({
    ...crontab([{ ...line(times, tier), zone: 'Europe/Berlin' }]),
    zone: 'UTC',
  });
  const next = async (times: string, now: string) =>
    (
      await expectByCrontab(
        'daily',
        { atMs: utc('2026-11-03T04:06'), isDue: false },
        inBerlin(times, 'daily'),
        utc(now),
      )
    ).expected;

  test('the next call is a time of that zone', async () => {
    const now = '2026-11-03T12:00';
    expect(await next('6 4 * * *', now)).toEqual({ atMs: utc('2026-11-04T03:06'), isOverdue: false });
    expect(await next('3-59/15 * * * *', '2026-11-03T04:10')).toMatchObject({ atMs: utc('2026-11-03T04:18') });
  });

  test('it is overdue only once a cron that ignores it would have called, too', async () => {
    expect(await next('6 9 * * *', '2026-11-03T09:30')).toEqual({ atMs: utc('2026-11-03T08:06'), isOverdue: false });
    expect(await next('6 9 * * *', '2026-11-03T10:07')).toEqual({ atMs: utc('2026-11-03T08:06'), isOverdue: true });
  });

  test('a zone that there is not tells nothing', async () => {
    const lines = crontab([{ ...line('13 * * * *', 'hourly'), zone: 'Europe/Berln' }]);
    const { expected } = await expectByCrontab('hourly', calledAt('10:13:01'), lines, at('10:30:00'));
    expect(expected?.atMs).toBe(at('11:13:01'));
  });
});

test('a star with a step and a weekday are both needed, as cron has it', async () => {
  const lines = crontab([line('30 4 */2 * 1', 'daily')]);
  const { expected } = await expectByCrontab('daily', null, lines, at('10:00:00', '2026-11-28'));
  expect(expected?.atMs).toBe(at('04:30:00', '2026-12-07'));
});

test('a later call is a time of the line too, on the other side of a clock change as well', async () => {
  const inBerlin = { ...crontab([line('13 4 * * *', 'daily')]), zone: 'Europe/Berlin' };
  const utc = (time: string) => Date.parse(`${time}:00Z`);
  const last = { atMs: utc('2026-10-23T02:13'), isDue: false };
  const { expected, callAfter } = await expectByCrontab('daily', last, inBerlin, utc('2026-10-23T12:00'));
  expect(expected?.atMs).toBe(utc('2026-10-24T02:13'));
  expect(callAfter(utc('2026-10-23T12:00'))).toBe(utc('2026-10-24T02:13'));
  expect(callAfter(utc('2026-10-24T02:13'))).toBe(utc('2026-10-24T02:13'));
  expect(callAfter(utc('2026-10-26T01:30'))).toBe(utc('2026-10-26T03:13'));
  expect(callAfter(utc('2026-10-26T03:14'))).toBe(utc('2026-10-27T03:13'));
});

describe('the passes of a tier within a window', () => {
  const listPasses = async (tier: string, last: PreviousCall | null, lines: CrontabTimes | null, fromMs: number) => {
    const { expected, passAfter } = await expectByCrontab(tier, last, lines, fromMs);
    const passes: string[] = [];
    for (let atMs = expected?.atMs ?? null; atMs !== null && passes.length < 4; atMs = passAfter(atMs)) {
      passes.push(new Date(atMs).toISOString().slice(8, 16));
    }
    return passes;
  };
  const utc = (time: string) => Date.parse(`${time}:00Z`);
  const lastAt = (time: string, isDue = false): PreviousCall => ({ atMs: utc(time), isDue });

  test('are all times of its line, by the clock of cron and across a clock change', async () => {
    const office = { ...crontab([line('0 9-10 * * *', 'hourly')]), zone: 'Europe/Berlin' };
    const last = lastAt('2026-10-24T08:00');
    expect(await listPasses('hourly', last, office, utc('2026-10-24T12:00'))).toEqual([
      ...['25T08:00', '25T09:00', '26T08:00', '26T09:00'],
    ]);
    const spring = { ...crontab([line('30 2 * * *', 'daily')]), zone: 'Europe/Berlin' };
    expect(await listPasses('daily', lastAt('2026-03-28T01:30'), spring, utc('2026-03-28T12:00'))).toEqual([
      ...['29T01:00', '30T00:30', '31T00:30', '01T00:30'],
    ]);
  });

  test('are the first call of each period where one line calls what is due', async () => {
    const due = { ...crontab([line('7,37 * * * *', 'due')]), zone: 'UTC' };
    // In some zones, an hour begins half an hour later.
    const isFullHour = new Date(utc('2026-11-03T10:00')).getMinutes() === 0;
    const calls = isFullHour ? ['11:07', '12:07', '13:07', '14:07'] : ['10:37', '11:37', '12:37', '13:37'];
    expect(await listPasses('hourly', lastAt('2026-11-03T10:07', true), due, utc('2026-11-03T10:20'))).toEqual(
      calls.map((time) => `03T${time}`),
    );
  });

  test('follow the last call where the crontab cannot be read', async () => {
    expect(await listPasses('hourly', lastAt('2026-11-03T10:13'), null, utc('2026-11-03T10:20'))).toEqual([
      ...['03T11:13', '03T12:13', '03T13:13', '03T14:13'],
    ]);
    expect(await listPasses('hourly', null, null, utc('2026-11-03T10:20'))).toEqual([]);
  });
});

test('a line that was installed a minute ago has missed nothing', async () => {
  const lines = crontab([line('13 * * * *', 'hourly')], '10:12:30');
  const found = (now: string, last: string | null = null) =>
    expectByCrontab('hourly', last === null ? null : calledAt(last), lines, at(now));
  const first = { isInCrontab: true, expected: { atMs: at('10:13:00'), isOverdue: false } };
  expect(await found('10:12:40')).toMatchObject(first);
  expect(await found('10:12:40', '03:00:00')).toMatchObject(first);
  expect((await found('10:44:00')).expected).toEqual({ atMs: at('10:13:00'), isOverdue: true });
  const pasted = { ...lines, changedAtMs: null };
  expect((await expectByCrontab('hourly', null, pasted, at('10:44:00'))).expected).toEqual({
    atMs: at('11:13:00'),
    isOverdue: false,
  });
});

test('without a line nothing is expected of a tier that was called until its line was taken out', async () => {
  const last = { ...calledAt('10:13:01'), isRegular: true };
  const none = (changed: string | null) => expectByCrontab('hourly', last, crontab([], changed), at('10:30:00'));
  expect(await none('10:20:00')).toMatchObject({ isInCrontab: false, expected: null });
  const byOthers = { isInCrontab: false, expected: { atMs: at('11:13:01'), isOverdue: false } };
  expect(await none(null)).toMatchObject(byOthers);
  expect(await none('10:00:00')).toMatchObject(byOthers);
});

test('without a line one call promises no other: it may have been by hand, without a terminal', async () => {
  const once = await expectByCrontab('hourly', calledAt('10:13:01'), crontab([]), at('10:30:00'));
  expect(once).toMatchObject({ isInCrontab: false, expected: null });
  expect(once.callAfter(at('12:00:00'))).toBeNull();
  expect(isRegularCall('hourly', at('10:13:01'), at('09:12:58'))).toBe(true);
  expect(isRegularCall('hourly', at('10:13:01'), at('09:40:00'))).toBe(false);
  expect(isRegularCall('hourly', at('10:13:01'), at('08:13:01'))).toBe(false);
  expect(isRegularCall('by-hand', at('10:13:01'), at('10:13:00'))).toBe(false);
});

test('calls of an unreadable crontab are expected by the last call', async () => {
  const byLastCall = { atMs: at('11:13:01'), isOverdue: false };
  const found = (times: CrontabTimes | null) => expectByCrontab('hourly', calledAt('10:13:01'), times, at('10:30:00'));
  expect(await found(null)).toMatchObject({ isInCrontab: null, expected: byLastCall });
  const unknown = crontab([line('5~30 * * * *', 'hourly')]);
  expect(await found(unknown)).toMatchObject({ isInCrontab: true, expected: byLastCall });
});

test('one line for all runs a tier at its first time in a period', async () => {
  const lines = crontab([line('3-59/15 * * * *', 'due')]);
  const next = async (tier: string, last: string) =>
    (await expectByCrontab(tier, calledAt(last, true), lines, at('10:20:00'))).expected?.atMs;
  expect(await next('hourly', '10:03:01')).toBe(at('11:03:00'));
  expect(await next('15min', '10:18:01')).toBe(at('10:33:00'));
  expect(await next('daily', '00:03:01')).toBe(at('00:03:00') + DAY);
  expect((await expectByCrontab('by-hand', null, lines, at('10:20:00'))).isInCrontab).toBe(false);
});

test('one line for all runs a script at its first time after that of the script, before its first call and after it', async () => {
  const lines = crontab([line('3 * * * *', 'due')]);
  for (const last of [null, calledAt('10:03:01', true)]) {
    const { callAfter } = await expectByCrontab('daily', last, lines, at('10:20:00'));
    expect(callAfter(at('14:30:00'))).toBe(at('15:03:00'));
  }
});

test('a sieve is heeded: such a line fires each day and runs each third', async () => {
  const shift = 43_200 - (4 * 60 + 33) * 60 - new Date(at('00:00:00')).getTimezoneOffset() * 60;
  const lines = crontab([line('33 4 * * *', '3days', { shift, step: 86_400, nth: 3 })]);
  const { expected } = await expectByCrontab('3days', null, lines, at('10:00:00'));
  const second = await expectByCrontab(
    '3days',
    { atMs: expected?.atMs ?? 0, isDue: false },
    lines,
    (expected?.atMs ?? 0) + HOUR,
  );
  expect((second.expected?.atMs ?? 0) - (expected?.atMs ?? 0)).toBe(3 * DAY);
});

describe('missed passes', () => {
  const missed = async (times: CrontabTimes | null, calls: readonly string[], until: string) =>
    await findMissedByCrontab(
      'hourly',
      { periodMs: HOUR, calledAtMs: calls.map((time) => at(time)), sinceMs: at('00:00:00'), untilMs: at(until) },
      async () => times,
    );

  test('are those times of the line at which nothing was called', async () => {
    const lines = crontab([line('13 * * * *', 'hourly')]);
    expect(await missed(lines, ['01:13:01', '02:13:01', '06:13:01'], '06:30:00')).toMatchObject({
      count: 3,
      gaps: [{ fromMs: at('02:13:01'), toMs: at('06:13:01'), count: 3 }],
    });
    expect(await missed(lines, ['01:13:01'], '02:40:00')).toMatchObject({ count: 0 });
    expect(await missed(lines, ['01:13:01'], '02:44:00')).toMatchObject({ count: 1 });
  });

  test('are none where the line is meant to call more seldom than the name says', async () => {
    const lines = crontab([line('13 */6 * * *', 'hourly')]);
    expect(await missed(lines, ['00:13:01', '06:13:01', '12:13:01'], '17:00:00')).toMatchObject({ count: 0 });
    expect(await missed(null, ['00:13:01', '06:13:01', '12:13:01'], '17:00:00')).toMatchObject({ count: 14 });
  });

  test('are none of a time before the lines were changed, when nobody knows what they were', async () => {
    const lines = crontab([line('13 * * * *', 'hourly')], '09:50:00');
    expect(await missed(lines, ['01:00:00'], '10:05:00')).toMatchObject({ count: 0 });
    expect(await missed(lines, ['01:00:00'], '10:45:00')).toMatchObject({ count: 1 });
  });
});

const onThatDay = (time: string): number => new Date(`2026-11-03T${time}`).getTime();
const byCron = (atMs: number): PreviousCall => ({ atMs, isDue: false });
const expected = (tier: string, last: string, now: string) => expectCall(tier, byCron(onThatDay(last)), onThatDay(now));

test('a tier is called again onThatDay the same minute of its next period', () => {
  expect(expected('hourly', '13:57:00', '14:10:00')).toEqual({ atMs: onThatDay('14:57:00'), isOverdue: false });
  expect(expected('15min', '13:33:05', '13:40:00')?.atMs).toBe(onThatDay('13:48:05'));
  expect(expected('daily', '04:06:00', '13:40:00')?.atMs).toBe(onThatDay('04:06:00') + 24 * 3_600_000);
});

test.each([
  ['15min', '13:33:00', '13:55:00', false],
  ['15min', '13:33:00', '13:56:00', true],
  ['hourly', '13:57:00', '15:26:00', false],
  ['hourly', '13:57:00', '15:28:00', true],
])('%s, called %s, is onThatDay %s overdue: %j', (tier, last, now, isOverdue) => {
  expect(expected(tier, last, now)?.isOverdue).toBe(isOverdue);
});

test('a tier of a day is overdue after an hour, not after half a day', () => {
  const last = onThatDay('04:06:00') - 24 * 3_600_000;
  expect(expectCall('daily', byCron(last), onThatDay('05:05:00'))?.isOverdue).toBe(false);
  expect(expectCall('daily', byCron(last), onThatDay('05:07:00'))?.isOverdue).toBe(true);
});

test.each([
  ['hourly', '14:50:00', false, '14:50:00'],
  ['hourly', '14:10:00', false, '15:10:00'],
  ['15min', '14:20:00', false, '14:35:00'],
  ['hourly', '14:50:00', true, '15:00:00'],
])(
  '%s, called in three years onThatDay %s as the clock was ahead, `due` %j: now next onThatDay %s',
  (tier, time, isDue, next) => {
    const atMs = onThatDay(time) + 3 * 365 * 24 * 3_600_000;
    expect(expectCall(tier, { atMs, isDue }, onThatDay('14:30:00'))).toEqual({
      atMs: onThatDay(next),
      isOverdue: false,
    });
  },
);

test('nothing is expected of what was never called or has no period', () => {
  expect(expectCall('hourly', null, onThatDay('14:00:00'))).toBeNull();
  expect(expectCall('by-hand', byCron(onThatDay('13:00:00')), onThatDay('14:00:00'))).toBeNull();
});

test('by `due` a tier is called in its next period, by the first call in it', () => {
  const last = { atMs: onThatDay('13:37:00'), isDue: true };
  expect(expectCall('15min', last, onThatDay('14:30:00'))).toEqual({
    atMs: onThatDay('13:45:00'),
    isOverdue: false,
  });
  expect(expectCall('15min', last, onThatDay('15:16:00'))?.isOverdue).toBe(true);
  const midnight = new Date('2026-11-04T00:00:00').getTime();
  expect(expectCall('daily', last, onThatDay('14:30:00'))?.atMs).toBe(midnight);
});

function find(hours: readonly number[], since = 0, until = 24, periodMs: number | null = HOUR) {
  const calledAtMs = hours.map((hour) => hour * HOUR);
  return findMissedPasses({
    periodMs,
    calledAtMs,
    sinceMs: since * HOUR,
    untilMs: until * HOUR,
  });
}

describe('missed passes', () => {
  test('are none where every pass came, up to half a period late', () => {
    const late = Array.from({ length: 24 }, (_, hour) => hour + (hour % 2) * 0.4);
    expect(find(late)).toEqual({ count: 0, gaps: [] });
  });

  test('are counted in the gap between two passes', () => {
    expect(find([0, 1, 5, 6], 0, 7)).toEqual({
      count: 3,
      gaps: [{ fromMs: 1 * HOUR, toMs: 5 * HOUR, count: 3 }],
    });
  });

  test('are counted since the last pass, which has no end yet', () => {
    expect(find([20], 0, 24)).toEqual({
      count: 3,
      gaps: [{ fromMs: 20 * HOUR, toMs: null, count: 3 }],
    });
    expect(find([23], 0, 24.4)?.count).toBe(0);
    expect(find([23], 0, 24.6)?.count).toBe(1);
  });

  test('count only inside the window, also when the last pass was before it', () => {
    expect(find([0], 20, 24)?.count).toBe(4);
    expect(find([0, 22], 20.5, 22.2)?.count).toBe(1);
  });

  test('are unknown for a tier without a period and for one that was never called', () => {
    expect(find([0, 9], 0, 24, null)).toBeNull();
    expect(find([])).toBeNull();
  });

  test('plus those that came make as many as the time has periods', () => {
    const came = fc.uniqueArray(fc.integer({ min: 0, max: 100 }), { minLength: 1 });
    fc.assert(
      fc.property(came, (hours) => {
        const ascending = hours.toSorted((one, other) => one - other);
        const missed = find(ascending, 0, 101)?.count ?? Number.NaN;
        expect(missed + ascending.length).toBe(101 - (ascending[0] ?? 0));
      }),
    );
  });
});
