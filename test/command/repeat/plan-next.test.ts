import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Modifier } from '../../../src/schedule/repeat/rule.ts';
import { applyModifiers, momentSeries, nextTime, planNext } from '../../../src/schedule/repeat/series.ts';
import { tries } from '../../support/tries.ts';
import { at, plan, ranAt, ruleOf } from '../../unit/repeat/support.ts';

/** 4.5 hours late, as in vector 37. */
const late = { scheduled: at('2026-03-10 09:17'), started: at('2026-03-10 13:40'), finished: at('2026-03-10 13:45') };

describe('of the times that have passed', () => {
  test('`all` are run, one after the other', async () => {
    const first = await plan('SCHEDULED, +1 HOUR', late);
    const time = '2026-03-10 10:17:00';
    expect(first).toEqual({ runAt: time, scheduledFor: time, skipped: 0 });
    const second = await plan('SCHEDULED, +1 HOUR', { ...late, scheduled: at(time) });
    expect(second.runAt).toBe('2026-03-10 11:17:00');
  });

  test('`all` runs the latest up to its cap', async () => {
    const planned = await plan('SCHEDULED, +1 HOUR', late, { cap: 3 });
    expect(planned).toMatchObject({ runAt: '2026-03-10 11:17:00', skipped: 1 });
    expect(await plan('SCHEDULED, +1 HOUR', late, { cap: 4 })).toMatchObject({ skipped: 0 });
  });

  test('`once` runs one at once and stays in step', async () => {
    expect(await plan('SCHEDULED, +1 HOUR', late, { missed: 'once' })).toEqual({
      runAt: '2026-03-10 13:45:00',
      scheduledFor: '2026-03-10 13:17:00',
      skipped: 3,
    });
  });

  test('`skip` runs none and stays in step', async () => {
    const time = '2026-03-10 14:17:00';
    const planned = await plan('SCHEDULED, +1 HOUR', late, { missed: 'skip' });
    expect(planned).toEqual({ runAt: time, scheduledFor: time, skipped: 4 });
  });

  test('each is one of a day by the clock, too', async () => {
    const away = { ...late, scheduled: at('2026-03-05 09:00'), finished: at('2026-03-10 13:45') };
    const rule = 'daily at 10:00 in Europe/Berlin';
    expect(await plan(rule, away)).toMatchObject({ runAt: '2026-03-06 09:00:00', skipped: 0 });
    expect(await plan(rule, away, { cap: 2 })).toMatchObject({ runAt: '2026-03-09 09:00:00', skipped: 3 });
    expect(await plan(rule, away, { missed: 'once' })).toEqual({
      runAt: '2026-03-10 13:45:00',
      scheduledFor: '2026-03-10 09:00:00',
      skipped: 4,
    });
    expect(await plan(rule, away, { missed: 'skip' })).toMatchObject({ runAt: '2026-03-11 09:00:00', skipped: 5 });
  });

  test.each(['all', 'once', 'skip'] as const)('none is one for `%s` if all went well', async (missed) => {
    const onTime = ranAt(at('2026-03-10 13:00'));
    const time = '2026-03-10 14:00:00';
    const planned = await plan('SCHEDULED, +1 HOUR', onTime, { missed });
    expect(planned).toEqual({ runAt: time, scheduledFor: time, skipped: 0 });
  });

  test('those of STARTED are skipped from its start on', async () => {
    const slow = { scheduled: 0, started: at('2026-03-10 10:05'), finished: at('2026-03-10 13:45') };
    const planned = await plan('STARTED, +1 HOUR', slow, { missed: 'skip' });
    expect(planned).toMatchObject({ runAt: '2026-03-10 14:05:00', skipped: 3 });
  });
});

describe('a rule that does not get ahead', () => {
  const now = ranAt(at('2026-03-10 13:45:00'));

  test.each([
    'FINISHED, +0 SECONDS',
    'FINISHED, -30 MINUTES',
    'FINISHED, +1 SECOND',
    'FINISHED, START OF DAY, +4 HOURS',
    'STARTED, +0 DAYS',
    'SCHEDULED, +0 SECONDS',
    'SCHEDULED, -1 DAY',
    'SCHEDULED, START OF HOUR',
  ])('%s waits a second', async (rule) => {
    for (const missed of ['all', 'once', 'skip'] as const) {
      const planned = await plan(rule, now, { missed });
      expect(planned).toMatchObject({ runAt: '2026-03-10 13:45:01', skipped: 0 });
    }
  });

  test('waits the whole second, although times are in whole seconds', async () => {
    const finished = now.finished + 900;
    const planned = await planNext(
      ruleOf('FINISHED, +1 SECOND'),
      { ...now, finished },
      { missed: 'all', cap: 1, nowMs: finished },
    );
    expect(planned?.runAt).toBe(finished + 1000);
  });

  test('is told from one that catches up, which may run at once', async () => {
    const behind = { ...now, scheduled: at('2026-03-10 13:44:50') };
    expect((await plan('SCHEDULED, +1 SECOND', behind)).runAt).toBe('2026-03-10 13:44:51');
  });

  test('may get stuck later: it was due today, and tomorrow it is again', async () => {
    const rule = 'SCHEDULED, START OF DAY, +4 HOURS';
    const night = ranAt(at('2026-03-10 00:00'));
    expect((await plan(rule, night)).runAt).toBe('2026-03-10 04:00:00');
    const planned = await plan(rule, night, { missed: 'skip', nowMs: at('2026-03-10 05:00') });
    expect(planned.runAt).toBe('2026-03-10 05:00:01');
  });
});

test.each(['all', 'once', 'skip'] as const)(
  'a job that ran before its time goes on from that, with `%s`',
  async (missed) => {
    const kicked = { ...ranAt(at('2026-03-08 07:00')), scheduled: at('2026-03-10 10:00') };
    for (const rule of ['daily at 10:00 in UTC', 'SCHEDULED, +1 DAY']) {
      const planned = await plan(rule, kicked, { missed });
      expect(planned).toMatchObject({ runAt: '2026-03-11 10:00:00', skipped: 0 });
    }
  },
);

test('a rule that got ahead where it was, but would not where it is, waits a second', async () => {
  // By a second in a month of 30 days, back by a day in one of 31; with more times than are walked through.
  const rule = 'SCHEDULED, +30 DAYS, -1 MONTH, +1 SECOND';
  const april = { ...ranAt(at('2026-05-10')), scheduled: at('2026-04-10') };
  const planned = await plan(rule, april, { missed: 'skip' });
  expect(planned.runAt).toBe('2026-05-10 00:00:01');
});

test('a rule without a further time plans none', async () => {
  const moments = ranAt(at('9999-06-01'));
  const options = { missed: 'all', cap: 1, nowMs: moments.finished } as const;
  expect(await planNext(ruleOf('FINISHED, +1 YEAR'), moments, options)).toBeNull();
  expect(await planNext(ruleOf('yearly on 1 may at 00:00'), moments, options)).toBeNull();
  const never = { ...moments, started: null };
  expect(await planNext(ruleOf('STARTED, +1 DAY'), never, options)).toBeNull();
});

describe('20 years of missed times are computed in less than 50 ms', () => {
  const now = at('2026-03-10 13:45:30');
  const away = { scheduled: at('2006-03-10 13:45'), started: now, finished: now };

  test.each([
    ['SCHEDULED, +1 SECOND', '2026-03-10 13:45:31', 631_152_030],
    ['SCHEDULED, +1 MINUTE', '2026-03-10 13:46:00', 10_519_200],
    ['SCHEDULED, +1 HOUR, START OF HOUR, +5 MINUTES', '2026-03-10 14:05:00', 175_320],
    ['SCHEDULED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS', '2026-03-16 06:00:00', 1_044],
    ['SCHEDULED, +90 MINUTES, +45 SECONDS', '2026-03-10 15:11:15', 115_914],
    // The last days of January lead to March, and from there to February: they have no times.
    ['SCHEDULED, +1 MONTH, -1 MONTH, +1 MINUTE', '2026-03-10 13:46:00', 10_324_800],
    ['SCHEDULED, +1 MONTH, -1 MONTH, +1 SECOND, WEEKDAY 1', '2026-03-16 00:00:00', 88_596_899],
    ['SCHEDULED, +1 MONTH', '2026-04-10 13:45:00', 240],
    ['daily at 02:30 in Europe/Berlin', '2026-03-11 01:30:00', 7_305],
    ['weekly on friday at 23:59 in America/Havana', '2026-03-14 03:59:00', 1_044],
    ['monthly on last at 12:00 in UTC', '2026-03-31 12:00:00', 240],
    ['yearly on 29 february at 12:00 in UTC', '2027-02-28 12:00:00', 20],
  ])('of %s', async (rule, runAt, skipped) => {
    // Loads the library of time zones.
    await plan(rule, away);
    // Not by the clock, and the least of three: other tests run beside this one.
    const costs: number[] = [];
    for (let time = 0; time < 3; time += 1) {
      const before = process.cpuUsage();
      const planned = await plan(rule, away, { missed: 'skip' });
      const { user, system } = process.cpuUsage(before);
      costs.push((user + system) / 1000);
      expect(planned.runAt).toBe(runAt);
      expect(planned.skipped).toBe(skipped);
    }
    expect(Math.min(...costs)).toBeLessThan(50);
  });
});

describe('whatever the rule and the moments', () => {
  const amount = fc
    .tuple(fc.constantFrom('+', '-'), fc.nat(120), fc.constantFrom('SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR'))
    .map(([sign, count, unit]) => `${sign}${count} ${unit}`);
  const step = fc.oneof(
    { weight: 3, arbitrary: amount },
    fc.constantFrom('HOUR', 'DAY', 'MONTH', 'YEAR').map((unit) => `START OF ${unit}`),
    fc.nat(6).map((day) => `WEEKDAY ${day}`),
  );
  const momentRules = fc
    .tuple(fc.constantFrom('SCHEDULED', 'STARTED', 'FINISHED'), fc.array(step, { minLength: 1, maxLength: 4 }))
    .map(([base, steps]) => [base, ...steps].join(', '));
  const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'America/Havana', 'Australia/Lord_Howe', 'Pacific/Apia');
  const days = fc.constantFrom('daily', 'weekly on sunday', 'monthly on 31', 'yearly on 29 february');
  const calendarRules = fc
    .tuple(days, fc.nat(23), fc.nat(59), zones)
    .map(([day, hour, minute, zone]) => `${day} at ${hour}:${String(minute).padStart(2, '0')} in ${zone}`);
  const rules = fc.oneof({ weight: 2, arbitrary: momentRules }, calendarRules);
  const instant = fc.integer({ min: at('1990-01-01'), max: at('2030-01-01') });
  const situations = fc
    .tuple(instant, fc.nat(3_000_000), fc.nat(90_000_000), fc.nat(10_000))
    .map(([scheduled, waitMs, runMs, toldMs]) => {
      const started = scheduled + waitMs;
      const finished = started + runMs;
      return { moments: { scheduled, started, finished }, nowMs: finished + toldMs };
    });

  test('the next run is later than the schedule before, and none is hurried but to catch up', async () => {
    await fc.assert(
      fc.asyncProperty(
        rules,
        situations,
        fc.constantFrom('all', 'once', 'skip'),
        async (text, { moments, nowMs }, missed) => {
          const rule = ruleOf(text);
          const planned = await planNext(rule, moments, { missed, nowMs, cap: 5 });
          if (planned === null) return;
          expect(planned.scheduledFor).toBeGreaterThan(moments.scheduled);
          expect(planned.runAt).toBeGreaterThanOrEqual(planned.scheduledFor);
          const followsSchedule = rule.kind === 'calendar' || rule.base === 'scheduled';
          if (!followsSchedule) expect(planned.runAt).toBeGreaterThanOrEqual(moments.finished + 1000);
          if (missed === 'skip') expect(planned.runAt).toBeGreaterThan(nowMs);
          if (missed === 'once') expect(planned.runAt).toBeGreaterThanOrEqual(nowMs);
        },
      ),
      { numRuns: tries(2000) },
    );
  });

  test('`all` comes to the present within as many runs as its cap', async () => {
    await fc.assert(
      fc.asyncProperty(rules, situations, fc.integer({ min: 1, max: 5 }), async (text, { moments, nowMs }, cap) => {
        let scheduled = moments.scheduled;
        for (let run = 0; run < cap; run += 1) {
          const last = { scheduled, started: nowMs, finished: nowMs };
          const planned = await planNext(ruleOf(text), last, { missed: 'all', nowMs, cap });
          if (planned === null || planned.runAt > nowMs) return;
          scheduled = planned.scheduledFor;
        }
        const last = { scheduled, started: nowMs, finished: nowMs };
        const planned = await planNext(ruleOf(text), last, { missed: 'all', nowMs, cap });
        if (planned !== null) expect(planned.runAt).toBeGreaterThan(nowMs);
      }),
      { numRuns: tries(500) },
    );
  });

  test('`every 90 seconds` waits no less than it says, and less than a second more', async () => {
    await fc.assert(
      fc.asyncProperty(instant, async (finished) => {
        const at = (await nextTime(ruleOf('every 90 seconds'), ranAt(finished))) ?? 0;
        expect(at - finished).toBeGreaterThanOrEqual(90_000);
        expect(at - finished).toBeLessThan(91_000);
        expect(at % 1000).toBe(0);
      }),
    );
  });

  const intervals = fc.tuple(fc.integer({ min: 1, max: 999 }), fc.constantFrom('MINUTES', 'HOURS'));

  test('`once` and `skip` keep the phase of a fixed interval', async () => {
    await fc.assert(
      fc.asyncProperty(
        intervals,
        situations,
        fc.constantFrom('once', 'skip'),
        async ([count, unit], { moments, nowMs }, missed) => {
          const rule = ruleOf(`SCHEDULED, +${count} ${unit}`);
          const planned = await planNext(rule, moments, { missed, nowMs, cap: 1 });
          const intervalMs = count * (unit === 'HOURS' ? 3_600_000 : 60_000);
          const start = Math.floor(moments.scheduled / 1000) * 1000;
          expect(((planned?.scheduledFor ?? 0.5) - start) % intervalMs).toBe(0);
          expect(planned?.scheduledFor).toBeGreaterThan(nowMs - intervalMs);
        },
      ),
    );
  });

  test('what is computed by arithmetic is what walking from time to time gives', () => {
    const lists = fc.oneof(
      fc.array(step, { minLength: 1, maxLength: 4 }).map((steps) => steps.join(', ')),
      fc.constantFrom(
        '+1 HOUR, START OF HOUR, +5 MINUTES',
        '+90 MINUTES, START OF HOUR',
        '+1 DAY, START OF DAY, +6 HOURS',
        '+50 HOURS, WEEKDAY 2, START OF HOUR',
        '+1 MONTH, -1 MONTH, +50 MINUTES',
        '-1 YEAR, +1 YEAR, WEEKDAY 2, +7 HOURS',
        '+1 HOUR, WEEKDAY 3, -3 MONTHS, START OF HOUR, +92 DAYS',
      ),
    );
    const property = fc.property(lists, instant, fc.nat(800 * 86_400_000), fc.nat(), (list, start, behindMs, index) => {
      const rule = ruleOf(`SCHEDULED, ${list}`);
      if (rule.kind !== 'moment') throw new Error('not a rule of moments');
      const nowMs = start + behindMs;
      const times = walk(start, rule.modifiers, nowMs);
      if (times === null) return;
      const { passed, timeAt } = momentSeries(times[0] as number, rule.modifiers, nowMs);
      expect(passed).toBe(times.filter((time) => time <= nowMs).length);
      expect(timeAt(passed)).toBe(times[passed] ?? null);
      if (passed > 0) expect(timeAt(index % passed)).toBe(times[index % passed]);
    });
    fc.assert(property, { numRuns: tries(1000) });
  });
});

/** One after the other, up to the first in the future, or to the last that is later than the one before. */
function walk(startMs: number, modifiers: readonly Modifier[], nowMs: number): readonly number[] | null {
  const times: number[] = [];
  for (let at = applyModifiers(startMs, modifiers); at !== null; at = applyModifiers(at, modifiers)) {
    if (times.length > 0 && at <= (times.at(-1) as number)) break;
    times.push(at);
    if (at > nowMs) break;
    if (times.length > 100_000) return null;
  }
  return times.length === 0 ? null : times;
}
