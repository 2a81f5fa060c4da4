import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { allEnded, describeFound, printableName, shellWord } from '../../../src/system/base/values.ts';
import { tries } from '../../support/tries.ts';

const circle: { self?: unknown } = {};
circle.self = circle;

test.each([
  ['soon', '"soon"'],
  [undefined, 'undefined'],
  [10n, '10n'],
  [7.5, '7.5'],
  [Number.NaN, 'NaN'],
  [Symbol('a'), 'Symbol(a)'],
  ['x'.repeat(100), `"${'x'.repeat(79)}…`],
  [circle, 'a value that is not JSON'],
  [{ a: 1n }, 'a value that is not JSON'],
])('what was found is shown, whatever it is: %#', (found, shown) => {
  expect(describeFound(found)).toBe(shown);
});

test('a plain path stays as it is', () => {
  expect(shellWord('jobs/15min/clean-tmp.v2.sh')).toBe('jobs/15min/clean-tmp.v2.sh');
});

test('a shell reads back any path as one word', () => {
  const path = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\0'));
  const nasty = fc
    .array(fc.constantFrom("'", '"', '$x', '`', '\\', ' ', '\n', '%', '*', '-', '~', '!'))
    .map((signs) => `a${signs.join('')}`);
  fc.assert(
    fc.property(fc.oneof(path, nasty), (given) => {
      const printed = execFileSync('/bin/sh', ['-c', `printf '%s' ${shellWord(given)}`]);
      expect(printed.toString()).toBe(given);
    }),
    { numRuns: tries(50) },
  );
});

test.each([
  ['clean-tmp', 'clean-tmp'],
  ['größe 100% "x" \'y\' 👩‍💻', 'größe 100% "x" \'y\' 👩‍💻'],
  ['a\nb\tc\r', 'a\\nb\\tc\\r'],
  ['\u001b[31m\u0000', '\\u001b[31m\\u0000'],
  ['\u007f\u0085\u2028', '\\u007f\\u0085\\u2028'],
  ['gpj\u202ehs', 'gpj\\u202ehs'],
])('%j is shown as %s', (name, shown) => {
  expect(printableName(name)).toBe(shown);
});

test('no name is shown with a control character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      expect(printableName(name)).not.toMatch(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u);
    }),
  );
});

test('of several that have failed, the one that failed first is thrown, once all have ended', async () => {
  const ended: string[] = [];
  const fail = async (name: string, turns: number): Promise<never> => {
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    ended.push(name);
    throw new Error(name);
  };
  await expect(allEnded([fail('follows from it', 20), fail('the cause', 2)])).rejects.toThrow('the cause');
  expect(ended).toEqual(['the cause', 'follows from it']);
});
