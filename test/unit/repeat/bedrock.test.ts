import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { formatInstant } from '../../../src/schedule/repeat/rule.ts';
import { nextTime } from '../../../src/schedule/repeat/series.ts';
import { parseDurationMs } from '../../../src/settings/readers.ts';
import { tries } from '../../support/tries.ts';
import { at, momentsOf, next, plan, problemOf, ranAt, ruleOf } from './support.ts';
import reference from './vectors.json' with { type: 'json' };

interface Vector {
  readonly id: number;
  readonly scheduled: string;
  readonly started: string;
  readonly finished: string;
  readonly repeat: string;
  readonly expected: string;
  readonly expectedSeedText?: string;
  readonly expectedReanchored: string;
  readonly note: string;
}

const vectors: readonly Vector[] = reference.vectors;
const titled = vectors.map((vector) => [`${vector.id}: ${vector.repeat}`, vector] as const);

describe('the rule alone gives what vector', () => {
  // Where the document of Bedrock::Jobs and its code differ, the document counts.
  test.each(titled)('%s expects', async (_, vector) => {
    const expected = vector.expectedSeedText ?? vector.expected;
    expect(await next(vector.repeat, momentsOf(vector))).toBe(expected);
  });

  test('1, 2 and 3 expect, with each base', async () => {
    const bases = vectors.slice(0, 3).map(({ repeat, expected }) => [repeat, expected]);
    expect(bases).toEqual([
      ['SCHEDULED, +1 HOUR', '2026-03-10 14:00:00'],
      ['STARTED, +1 HOUR', '2026-03-10 14:15:00'],
      ['FINISHED, +1 HOUR', '2026-03-10 14:45:00'],
    ]);
  });
});

const seed = momentsOf({
  scheduled: '2026-03-10 13:00:00',
  started: '2026-03-10 13:15:00',
  finished: '2026-03-10 13:45:00',
});

/** What docs/scripts.md offers to those who are used to what Bedrock's code does. */
const asInTheCode: Readonly<Record<string, string>> = {
  HOURLY: 'FINISHED, +1 HOUR, START OF HOUR',
  DAILY: 'FINISHED, +1 DAY, START OF DAY',
  WEEKLY: 'FINISHED, +1 DAY, WEEKDAY 0, START OF DAY',
};

describe('what the code makes of a canned rule is to be had by another one:', () => {
  const canned = vectors.filter(({ expectedSeedText }) => expectedSeedText !== undefined);
  test.each(canned)('$repeat of vector $id', async (vector) => {
    const rule = asInTheCode[vector.repeat] ?? '';
    expect(await next(rule, momentsOf(vector))).toBe(vector.expected);
  });

  test('and DAILY, of which there is no vector', async () => {
    const rule = asInTheCode.DAILY ?? '';
    expect(await next(rule, seed)).toBe('2026-03-11 00:00:00');
  });

  test('the page names them', () => {
    const page = readFileSync(new URL('../../../docs/scripts.md', import.meta.url), 'utf8');
    for (const rule of Object.values(asInTheCode)) expect(page).toContain(`| \`${rule}\` |`);
  });
});

/** Vectors of Bedrock's newer rule from which `skip` differs on purpose: what it gives, and why. */
const changedOnPurpose: Readonly<Record<number, readonly [expected: string, reason: string]>> = {
  9: ['2026-03-10 14:45:00', 'the document’s HOURLY, not the code’s'],
  11: ['2026-03-17 13:45:00', 'the document’s WEEKLY, not the code’s'],
  13: ['2026-03-15 00:00:05', 'the document’s WEEKLY, not the code’s'],
  29: ['2026-03-10 13:45:01', 'never in the future: the floor, instead of the past again and again'],
  31: ['2026-03-10 13:45:01', 'never in the future: the floor, instead of a busy loop'],
  35: ['2026-03-10 18:00:00', 'skip jumps whatever the interval: who asked for it wants no past'],
  41: ['2026-03-10 17:00:00', 'skip jumps whatever the interval: who asked for it wants no past'],
};

describe('with `skip`', () => {
  test.each(titled)(
    'a job gets the time of Bedrock’s newer rule, or one changed on purpose, in vector %s',
    async (_, vector) => {
      const [expected, reason] = changedOnPurpose[vector.id] ?? [vector.expectedReanchored, vector.note];
      const { runAt } = await plan(vector.repeat, momentsOf(vector), { missed: 'skip' });
      expect(runAt, reason).toBe(expected);
    },
  );

  test('all that is listed as changed on purpose is so', () => {
    for (const { id, expectedReanchored } of vectors) {
      if (changedOnPurpose[id]) expect(changedOnPurpose[id][0]).not.toBe(expectedReanchored);
    }
    const ids = vectors.map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(Object.keys(changedOnPurpose).map(Number)));
  });
});

/** Those that the reference names besides (queues.md, 1.4). */
const furtherGrammar = [
  ['FINISHED', false],
  ['+1 HOUR', false],
  ['FINISHED, + 1 HOUR', false],
  ['FINISHED , +1 HOUR', false],
  ['FINISHED, +100000000 SECONDS', false],
  ['FINISHED, START OF WEEK', false],
  ['FINISHED, UTC', false],
  ['FINISHED, +01:00', false],
  ['SCHEDULED, STARTED, +1 HOUR', false],
  ['HOURLY,', false],
  ['', false],
  ['FINISHED,+1 HOUR', true],
  [' FINISHED, +1 HOUR', true],
  ['FINISHED, , +1 HOUR,', true],
  ['FINISHED, -30 MINUTES', true],
  ['FINISHED, +0 SECONDS', true],
  ['FINISHED, +99999999 SECONDS', true],
  ['FINISHED, START OF HOUR', true],
  ['FINISHED, +7 DAYS, WEEKDAY 4', true],
  ['STARTED, +1 MONTH, -1 DAY, START OF DAY, +4 HOURS', true],
  ['hourly', true],
  ['Daily', true],
  ['WEEKLY', true],
  // Letters that only become those of the grammar by Unicode's upper case.
  ['ſCHEDULED, +1 HOUR', false],
  ['daıly', false],
  ['FINISHED, +1 HOUR\n', false],
  ['FINISHED,\t+1 HOUR', false],
  ['FINISHED, +١ HOUR', false],
] as const;

const grammar = [...reference.grammar.map(({ repeat, valid }) => [repeat, valid] as const), ...furtherGrammar];

test.each(grammar)('%j is a rule: %s', (text, isValid) => {
  const problem = problemOf(text);
  expect(problem === null, problem ?? '').toBe(isValid);
  if (problem !== null) {
    expect(problem).toMatch(/^The repeat rule ".*" is wrong: .+[.?]$/);
    expect(problem).toContain(JSON.stringify(text));
  }
});

interface RetryVector {
  readonly scheduled: string;
  readonly now: string;
  readonly retryAfter: string;
  readonly repeat: string;
  readonly expected: string;
}

const leases: Readonly<Record<string, string>> = { '+5 MINUTES': '5 minutes', '+2 HOURS': '2 hours' };

/**
 * Changed on purpose: there, a running job's row holds one time, the earlier one of when its claim ends
 * and when it repeats. Here a lease and a next time are two columns, so that no job is handed out again
 * because its next time has come while it runs (case 47, the third of these).
 */
describe('the vectors of retryAfter are the earlier one of our two times', () => {
  const retryVectors: readonly RetryVector[] = reference.retryAfter;
  test.each(retryVectors)('$retryAfter with $repeat', async (vector) => {
    const now = at(vector.now);
    const leasedUntil = now + (parseDurationMs(leases[vector.retryAfter] ?? '') ?? Number.NaN);
    const moments = { scheduled: at(vector.scheduled), started: now, finished: now };
    const repeated = vector.repeat === '' ? null : await nextTime(ruleOf(vector.repeat), moments);
    expect(formatInstant(Math.min(leasedUntil, repeated ?? leasedUntil))).toBe(vector.expected);
  });
});

describe('case', () => {
  test('6: a rule of Bedrock’s is stored in upper case', () => {
    expect(ruleOf('scheduled, +1 hour').text).toBe('SCHEDULED, +1 HOUR');
    expect(ruleOf('weekly').text).toBe('WEEKLY');
  });

  test('7: a wrong rule is told in one sentence', () => {
    expect(problemOf('blabla')).toBe(
      'The repeat rule "blabla" is wrong: it begins with "blabla", but a rule begins with SCHEDULED, STARTED or FINISHED, ' +
        'or with every, daily, weekly, monthly or yearly, or is just HOURLY, DAILY or WEEKLY.',
    );
  });

  test('46: a late run of a scheduled job does not move its schedule', async () => {
    const late = { ...seed, started: at('2026-03-10 13:59:00'), finished: at('2026-03-10 13:59:30') };
    expect(await next('SCHEDULED, +1 HOUR', late)).toBe('2026-03-10 14:00:00');
  });

  test('70: a retry gets the rule’s time', async () => {
    expect((await plan('FINISHED, +1 HOUR', seed)).runAt).toBe('2026-03-10 14:45:00');
  });

  test('74: STARTED counts from the last run', async () => {
    expect(await next('STARTED, +1 HOUR', { ...seed, started: 1_000_000 })).toBe(formatInstant(4_600_000));
  });

  test('87: a new rule gives a new time', async () => {
    expect(await next('HOURLY', seed)).toBe('2026-03-10 14:45:00');
  });

  test('90: STARTED gives none in a job that never ran', async () => {
    const moments = { ...seed, started: null };
    expect(await next('STARTED, +1 HOUR', moments)).toBeNull();
    expect(await next('FINISHED, +1 HOUR', moments)).toBe('2026-03-10 14:45:00');
  });

  test('of vector 7: WEEKDAY moves on from any day but its own', async () => {
    const rule = 'FINISHED,+1 DAY,WEEKDAY 1,START OF DAY,+6 HOURS';
    expect(await next(rule, ranAt(at('2026-03-10 13:45')))).toBe('2026-03-16 06:00:00');
    expect(await next(rule, ranAt(at('2026-03-08 13:45')))).toBe('2026-03-09 06:00:00');
    expect(await next(rule, ranAt(at('2026-03-09 13:45')))).toBe('2026-03-16 06:00:00');
  });

  test('of vector 15: a month overflows by one day less in a leap year', async () => {
    expect(await next('SCHEDULED, +1 MONTH', ranAt(at('2024-01-31')))).toBe('2024-03-02 00:00:00');
  });

  test('38 and 40 of the vectors: what is due now is missed, also by 239 minutes', async () => {
    const now = at('2026-03-10 14:00:00');
    const moments = { ...ranAt(now), scheduled: at('2026-03-10 13:00:00') };
    const skip = { missed: 'skip', nowMs: now } as const;
    expect((await plan('SCHEDULED, +1 HOUR', moments, skip)).runAt).toBe('2026-03-10 15:00:00');
    const far = { ...moments, scheduled: at('2026-03-10 05:00:00') };
    expect((await plan('SCHEDULED, +239 MINUTES', far, skip)).runAt).toBe('2026-03-10 16:57:00');
  });
});

test('beyond the year 9999 there is no time', async () => {
  expect(await next('FINISHED, +999 YEARS', ranAt(at('9001-01-01')))).toBeNull();
  expect(await next('FINISHED, +998 YEARS', ranAt(at('9001-01-01')))).toBe('9999-01-01 00:00:00');
  expect(await next('FINISHED, -1 DAY', ranAt(at('0000-01-01')))).toBeNull();
  expect(await next('FINISHED, +1 DAY', ranAt(8.64e15))).toBeNull();
});

const sqlite = new Database(':memory:');
afterAll(() => sqlite.close());
const datetime = sqlite.prepare<[string, string], string | null>('select datetime(?, ?)').pluck();
const hour = sqlite.prepare<[string], string | null>("select strftime('%Y-%m-%d %H:00:00', ?)").pluck();

/** Each modifier by a call of its own, as Bedrock does it. */
function bySqlite(atMs: number, modifiers: readonly string[]): string | null {
  let at: string | null = new Date(atMs).toISOString().slice(0, 23).replace('T', ' ');
  for (const modifier of modifiers) {
    if (at !== null) at = modifier === 'START OF HOUR' ? (hour.get(at) ?? null) : (datetime.get(at, modifier) ?? null);
    // SQLite counts on before the year 0, with a sign.
    if (at?.startsWith('-')) return null;
  }
  return at;
}

const sign = fc.constantFrom('+', '-');
const plural = fc.constantFrom('', 'S');
const amount = fc
  .tuple(sign, fc.nat(999), fc.constantFrom('YEAR', 'MONTH', 'DAY', 'HOUR', 'MINUTE'), plural)
  .map(([first, count, unit, end]) => `${first}${count} ${unit}${end}`);
const seconds = fc
  .tuple(sign, fc.nat(99_999_999), plural)
  .map(([first, count, end]) => `${first}${count} SECOND${end}`);
const start = fc.constantFrom('HOUR', 'DAY', 'MONTH', 'YEAR').map((unit) => `START OF ${unit}`);
const weekday = fc.nat(6).map((day) => `WEEKDAY ${day}`);
const modifiers = fc.array(fc.oneof({ weight: 3, arbitrary: amount }, seconds, start, weekday), {
  minLength: 1,
  maxLength: 6,
});

const span = (from: string, to: string) => fc.integer({ min: Date.parse(from), max: Date.parse(to) });
/** Where months and years overflow, in leap years and out of them. */
const monthEnd = fc
  .tuple(fc.integer({ min: 1896, max: 2104 }), fc.nat(11), fc.nat(3), fc.nat(86_399_999))
  .map(([year, month, days, ms]) => Date.UTC(year, month + 1, -days) + ms);
const instants = fc.oneof(
  span('1970-01-01T00:00Z', '2100-01-01T00:00Z'),
  span('0000-01-01T00:00Z', '9999-12-31T23:59Z'),
  monthEnd,
);

test('what modifiers give is what SQLite’s datetime() gives', async () => {
  await fc.assert(
    fc.asyncProperty(instants, modifiers, async (atMs, list) => {
      const found = await next(['FINISHED', ...list].join(', '), ranAt(atMs));
      expect(found).toBe(bySqlite(atMs, list));
    }),
    { numRuns: tries(20_000) },
  );
});

test('also of each single month and year, from each of the days on which they overflow', async () => {
  for (let month = 0; month < 48; month += 1) {
    for (let day = 27; day <= 31; day += 1) {
      for (const modifier of ['+1 MONTH', '-1 MONTH', '+13 MONTHS', '-25 MONTHS', '+1 YEAR', '-3 YEARS']) {
        const atMs = Date.UTC(2023, month, day, 23, 59, 59, 999);
        expect(await next(`FINISHED, ${modifier}`, ranAt(atMs))).toBe(bySqlite(atMs, [modifier]));
      }
    }
  }
});
