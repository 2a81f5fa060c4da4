// Forty days of a root, minute by minute, in zones whose clocks change meanwhile: who calls, and how often, is all the same.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type DueFacts, decideDue } from '../../../src/schedule/due.ts';
import { periodStart, tierPeriodMs } from '../../../src/schedule/period.ts';
import { parseSchedule } from '../../../src/schedule/repeat/grammar/parse.ts';
import type { CalendarRule } from '../../../src/schedule/repeat/rule.ts';
import { dueTime } from '../../../src/schedule/script-times.ts';
import { pathWithoutCrontab } from '../../support/command.ts';
import { callAt, noted, notesTime, runWithFault } from '../../support/faults/faults.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const DAYS = 40;

/** Each with a change of its clocks in these days: by an hour back, by an hour forth, by half an hour. */
const zones: readonly (readonly [zone: string, firstDay: string])[] = [
  ['Europe/Berlin', '2026-10-03T10:07Z'],
  ['America/New_York', '2026-02-18T18:07Z'],
  ['Australia/Lord_Howe', '2026-03-12T10:07Z'],
];

const tiers = ['15min', 'hourly', '3days', 'daily', 'weekly', 'monthly', 'yearly'];

/** In the tier `15min`. */
const schedules = ['daily at 02:30', 'weekly on sun-thu at 09:00', '0 6 1,15 * *', 'monthly on last at 23:45'];

function ruleOf(text: string): CalendarRule {
  const parsed = parseSchedule(text, null);
  if ('problem' in parsed) throw new Error(parsed.problem);
  return parsed.rule;
}

/** What a root remembers of its tiers and scripts, and how often each has run. */
class Root {
  readonly runs = new Map<string, number[]>();
  readonly #seen = new Map<string, number>();
  readonly #queuedFor = new Map<string, number>();
  readonly #rules = schedules.map((text) => [text, ruleOf(text)] as const);
  readonly #since: number;

  constructor(since: number) {
    this.#since = since;
  }

  async due(at: number): Promise<void> {
    for (const tier of tiers) {
      if (!this.#seen.has(tier)) this.#seen.set(tier, at);
      const startedAt = this.runs.get(tier)?.at(-1);
      const last: DueFacts['last'] = startedAt === undefined ? null : { state: 'finished', startedAt };
      const start = periodStart(tier, at) as number;
      const seenAt = this.#seen.get(tier) as number;
      if (decideDue({ start, at, last, seenAt, crashes: 0, catchUp: 'once' }) === 'due') await this.pass(tier, at);
    }
  }

  async pass(tier: string, at: number): Promise<void> {
    const passAt = this.runs.get(tier)?.at(-1) ?? this.#seen.get(tier) ?? this.#since;
    for (const [text, rule] of tier === '15min' ? this.#rules : []) {
      const queuedFor = this.#queuedFor.get(text) ?? null;
      const times = { queuedFor, passAt, changedAt: this.#since, periodMs: tierPeriodMs(tier), nowMs: at };
      const time = await dueTime(rule, times);
      if (time === null) continue;
      this.#queuedFor.set(text, time);
      this.#note(text, time);
    }
    this.#note(tier, at);
  }

  #note(name: string, at: number): void {
    this.runs.set(name, [...(this.runs.get(name) ?? []), at]);
  }
}

/** What a clock on the wall shows, from each quarter of an hour to the next: days begin when the date changes. */
function wallOf(zone: string): (atMs: number) => { date: string; day: number; weekday: string; time: string } {
  const format = new Intl.DateTimeFormat('en-CA', {
    ...{ timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' },
    ...{ weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
  });
  return (atMs) => {
    const parts = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
    const date = `${parts.year}-${parts.month}-${parts.day}`;
    return { date, day: Number(parts.day), weekday: parts.weekday as string, time: `${parts.hour}:${parts.minute}` };
  };
}

/** The days of which the beginning lies in this time, by the calendar alone. */
function datesIn(zone: string, fromMs: number, untilMs: number) {
  const wall = wallOf(zone);
  const dates = new Map<string, ReturnType<ReturnType<typeof wallOf>>>();
  for (let at = fromMs; at < untilMs; at += 15 * MINUTE) dates.set(wall(at).date, wall(at));
  return [...dates.values()];
}

describe.each(zones)('forty days in %s', (zone, firstDay) => {
  const before = process.env.TZ;
  beforeAll(() => {
    process.env.TZ = zone;
  });
  afterAll(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });

  const first = Date.parse(firstDay);
  const last = first + DAYS * DAY;
  const begun = () => datesIn(zone, first, last).slice(1);

  function expectRuns({ runs }: Root): void {
    const countOf = (name: string): number => runs.get(name)?.length ?? 0;
    const dates = begun();
    expect(countOf('daily')).toBe(dates.length);
    expect(countOf('weekly')).toBe(dates.filter(({ weekday }) => weekday === 'Sun').length);
    expect(countOf('monthly')).toBe(dates.filter(({ day }) => day === 1).length);
    expect(countOf('yearly')).toBe(0);
    expect(countOf('3days')).toBe(dates.filter(({ date }) => (Date.parse(date) / DAY) % 3 === 0).length);
    expect(Math.abs(countOf('hourly') - DAYS * 24)).toBeLessThanOrEqual(1);
    expect(countOf('daily at 02:30')).toBe(dates.length);
    expect(countOf('weekly on sun-thu at 09:00')).toBe(
      dates.filter(({ weekday }) => !['Fri', 'Sat'].includes(weekday)).length,
    );
    expect(countOf('0 6 1,15 * *')).toBe(dates.filter(({ day }) => day === 1 || day === 15).length);
    expect(countOf('monthly on last at 23:45')).toBe(dates.filter(({ day }) => day === 1).length);
  }

  test('of a line that calls `due` each quarter of an hour', async () => {
    const root = new Root(first);
    for (let at = first; at < last; at += 15 * MINUTE) await root.due(at);
    expectRuns(root);
    expect(Math.abs((root.runs.get('15min')?.length ?? 0) - DAYS * 96)).toBeLessThanOrEqual(2);
  });

  test('of a host that calls when it likes, once in half an hour, and of somebody who calls besides', async () => {
    const minutes = fc.sample(fc.integer({ min: 0, max: 29 }), { numRuns: DAYS * 48, seed: 4711 });
    const root = new Root(first);
    for (const [index, minute] of minutes.entries()) {
      const at = first + (index * 30 + minute) * MINUTE;
      await root.due(at);
      if (minute % 5 === 0) await root.due(at + 1_000);
    }
    expectRuns(root);
  });

  test('of tiers that have lines of their own, beside `due`', async () => {
    const root = new Root(first);
    const wall = wallOf(zone);
    const lines: readonly (readonly [string, (now: ReturnType<typeof wall>) => boolean])[] = [
      ['daily', ({ time }) => time === '04:06'],
      ['weekly', ({ time, weekday }) => time === '04:21' && weekday === 'Sun'],
    ];
    for (let at = first - 6 * MINUTE; at < last; at += 15 * MINUTE) {
      const now = wall(at + 5 * MINUTE);
      await root.due(at);
      for (const [tier, isNow] of lines) if (isNow(now)) root.runs.get(tier)?.push(at + 5 * MINUTE);
    }
    // Where `due` has run a tier in its period, its own line runs it again, as it is told to; `due` does not.
    const ofDue = (tier: string, isNow: (now: ReturnType<typeof wall>) => boolean) =>
      (root.runs.get(tier) ?? []).filter((at) => !isNow(wall(at))).length;
    expect(ofDue('daily', ({ time }) => time === '04:06')).toBe(begun().length);
    expect(ofDue('weekly', ({ time }) => time === '04:21')).toBe(
      begun().filter(({ weekday }) => weekday === 'Sun').length,
    );
  });
});

describe.each(zones)('real calls in %s, by callers with other zones', (zone, firstDay) => {
  const callers = ['UTC', 'America/Los_Angeles', 'Pacific/Auckland'];

  test('run each script once for its time', async () => {
    const root = makeTemporaryRoot({
      'runner.config.json': JSON.stringify({ timezone: zone }),
      'jobs/daily/day.sh': notesTime('day'),
      'jobs/weekly/week.sh': notesTime('week'),
      'jobs/monthly/month.sh': notesTime('month'),
      'jobs/hourly/at.sh': `# @schedule monthly on 1 at 02:30\n${notesTime('at')}`,
    });
    const utc = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
    const first = Date.parse(firstDay);
    const monthStart = datesIn(zone, first, first + DAYS * DAY).find(({ day }) => day === 1)?.date as string;
    const midnight = first + DAYS * DAY;
    await callAt(root, [utc(first)], 'due');
    expect(noted(root)).toEqual([]);
    const times = [Date.parse(`${monthStart}T18:00Z`), Date.parse(`${monthStart}T18:20Z`), midnight];
    for (const [index, at] of times.entries()) {
      const env = { PATH: pathWithoutCrontab, TZ: callers[index] };
      await runWithFault(root, ['due'], { clockMs: at - Date.now(), env });
    }
    const counts = Map.groupBy(noted(root), (line) => line.split(' ')[0]);
    const countOf = (name: string) => counts.get(name)?.length ?? 0;
    expect([countOf('day'), countOf('week'), countOf('month'), countOf('at')]).toEqual([2, 2, 1, 1]);
  });
});
