import { CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { guessCommand } from '../../src/commands/shared/guess-command.ts';

import { makeTemporaryRoot } from '../support/temporary-root.ts';

const commands = ['add', 'job', 'tail', 'jobs', 'kick', 'report', 'show', 'status'];
const wrongUse = new CommanderError(1, 'commander.excessArguments', 'error: too many arguments');

/** In a root with three tiers. */
function guess(error: unknown, line: string): unknown {
  const cwd = makeTemporaryRoot({
    'jobs/hourly/a.sh': '',
    'jobs/daily/b.sh': '',
    'jobs/reports/c.sh': '',
  });
  return guessCommand(error, { args: line.split(' '), commands }, { cwd, env: {} });
}

const messageOf = (error: unknown): string => (error as Error).message;

test.each([
  ['bury 5', 'job 5 bury'],
  ['cancel 5', 'job 5 cancel'],
  ['finish 5 {}', 'job 5 finish'],
  ['retyr 5', 'job 5 retry'],
  ['5 bury', 'job 5 bury'],
  ['finish abc 5', 'job 5 finish'],
  ['kikc 5', 'job 5 kick'],
  ['bury mail/welcome', 'job <id> bury'],
  ['shwo 12', 'show'],
  ['reprot hourly/clean', 'report'],
  ['--root / shwo 12', 'show'],
  ['hourly/clean now', 'run hourly/clean'],
])('for `runner %s` it names `runner %s`', (line, meant) => {
  const [first] = line.replace('--root / ', '').split(' ');
  expect(messageOf(guess(wrongUse, line))).toBe(
    `There is no command "${first}"; did you mean \`runner ${meant}\`?`,
  );
});

test.each(['hourly daily', 'daily hourly', 'reports 7', '5', 'nothing 5', '--root x 5'])(
  'for `runner %s` it has none',
  (line) => {
    expect(guess(wrongUse, line)).toBe(wrongUse);
  },
);

test('with an option that there is not, the word is one only in front of it', () => {
  const unknown = new CommanderError(1, 'commander.unknownOption', "error: unknown option '--x'");
  expect(messageOf(guess(unknown, 'shwo --x'))).toContain('did you mean `runner show`?');
  expect(guess(unknown, '--x shwo hourly')).toBe(unknown);
});

test('the version is printed, whatever word stands beside it', () => {
  const version = new CommanderError(0, 'commander.version', '0.1.0');
  expect(guess(version, 'shwo --version')).toBe(version);
});

test.each([
  [
    'There is no tier "bury" in jobs; the tiers here are daily',
    '; did you mean `runner job <id> bury`?',
  ],
  ['There is no tier "bury" in jobs; did you mean bulky?', ', or `runner job <id> bury`?'],
])('%s: the guess is added', (said, added) => {
  const guessed = guess(new UsageError(said), 'bury');
  expect(messageOf(guessed)).toBe(said.replace(/\?$/, '') + added);
});

test('a word that is near to nothing leads to the commands', () => {
  const said = 'There is no tier "version" in jobs; the tiers here are daily';
  expect(messageOf(guess(new UsageError(said), 'version'))).toBe(
    `${said}; \`runner --help\` lists the commands.`,
  );
});

test.each([new UsageError('Something else.'), new Error('There is no tier')])(
  '%s stays as it is',
  (error) => {
    expect(guess(error, 'bury 5')).toBe(error);
  },
);
