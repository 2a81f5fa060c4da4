import Sqlite from 'better-sqlite3';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { matchAny, matchGlob } from '../../../src/system/base/glob.ts';
import { tries } from '../../support/tries.ts';

function openSqlite() {
  const database = new Sqlite(':memory:');
  onTestFinished(() => void database.close());
  const query = database.prepare<[string, string], { found: number }>('select ? glob ? as found');
  return (pattern: string, text: string): boolean => query.get(text, pattern)?.found === 1;
}

test.each([
  ['mail/*', 'mail/welcome', true],
  ['mail/*', 'mail/new/welcome', true],
  ['mail/*', 'mail', false],
  ['Mail/*', 'mail/welcome', false],
  ['*', '', true],
  ['m?il/a', 'mail/a', true],
  ['?', '😀', true],
  ['[a-m]ail', 'mail', true],
  ['[^a-m]ail', 'mail', false],
  ['a[*]b', 'a*b', true],
  ['a.b', 'axb', false],
  ['[]]', ']', true],
  // The start of a range is a member, even if the range holds nothing.
  ['[z-a]', 'z', true],
  ['[z-a]', 'a', false],
  ['[', '[', false],
  ['[^]', 'a', false],
])('%s and %s: %s', (pattern, text, expected) => {
  expect(matchGlob(pattern, text)).toBe(expected);
  expect(openSqlite()(pattern, text)).toBe(expected);
});

test('any pattern fits what it fits in SQLite', () => {
  const sqlite = openSqlite();
  const of = (maxLength: number) => fc.string({ unit: fc.constantFrom(...'abz*?[]^-/\\.', '😀', '\uffff'), maxLength });
  const property = fc.property(of(8), of(5), (pattern, text) => {
    expect([pattern, text, matchGlob(pattern, text)]).toEqual([pattern, text, sqlite(pattern, text)]);
  });
  fc.assert(property, { numRuns: tries(20_000) });
});

test('no pattern takes long', () => {
  const startedAt = performance.now();
  expect(matchGlob(`${'*a'.repeat(100)}b`, 'a'.repeat(255))).toBe(false);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});

test('of several, one is enough', () => {
  expect(matchAny(['mail/*', 'export'], 'export')).toBe(true);
  expect(matchAny(['mail/*', 'export'], 'exports')).toBe(false);
  expect(matchAny([], 'export')).toBe(false);
});
