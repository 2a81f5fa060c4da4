import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { tries } from '../../support/tries.ts';
import { next, ranAt } from './support.ts';

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
