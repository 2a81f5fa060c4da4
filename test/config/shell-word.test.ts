import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shellWord } from '../../src/system/base/values.ts';
import { tries } from '../support/tries.ts';

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
