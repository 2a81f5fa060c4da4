import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageError } from '../../src/config/usage-error.ts';
import { crontabWord } from '../../src/hosting/crontab-word.ts';

/** As cron does: the first bare `%` ends the command, `\%` is a `%`. */
const commandCronRuns = (command: string): string =>
  (command.split(/(?<!\\)%/)[0] ?? '').replaceAll('\\%', '%');

const wordTheShellGets = (word: string): string => {
  const command = commandCronRuns(`printf %s ${word}`.replace('%s', '\\%s'));
  return spawnSync('/bin/sh', ['-c', command], { encoding: 'utf8' }).stdout;
};

test('a plain path needs no quotes', () => {
  expect(crontabWord('/home/me/site-1/dist/bin.cjs')).toBe('/home/me/site-1/dist/bin.cjs');
});

test.each([
  ['/home/me/my site', "'/home/me/my site'"],
  ["/home/me/it's", "'/home/me/it'\\''s'"],
  ['/home/me/100%', "'/home/me/100\\%'"],
  ['/home/me/$HOME;rm', "'/home/me/$HOME;rm'"],
  ['/home/mé', "'/home/mé'"],
])('%s is written as %s', (path, word) => {
  expect(crontabWord(path)).toBe(word);
});

test('whatever a path holds, the command gets it unchanged through cron and the shell', () => {
  const character = fc.constantFrom(...`a B/'"%$\`*?~#&|;<>()!{}[]=é€\t\\`.replace('\t', ''));
  const path = fc.string({ unit: character, minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(
      path.filter((each) => !/\\[\\%]/.test(each)),
      (each) => {
        expect(wordTheShellGets(crontabWord(each))).toBe(each);
      },
    ),
    { numRuns: 60 },
  );
});

test.each(['/home/a\nb', '/home/a\rb', '/home/a\0b', '/home/a\u001bb'])(
  '%j cannot be in a crontab line and is refused in a sentence',
  (path) => {
    expect(() => crontabWord(path)).toThrow(UsageError);
    expect(() => crontabWord(path)).toThrow(/control character.*rename the folder\.$/);
  },
);

test.each(['/home/a\\\\b', '/home/a\\%b'])(
  '%j is read differently by crons and refused',
  (path) => {
    expect(() => crontabWord(path)).toThrow(/backslash.*rename the folder\.$/);
  },
);
