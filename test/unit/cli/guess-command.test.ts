import { CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { guessCommand } from '../../../src/commands/wrong-use.ts';
import { NoSuchTier } from '../../../src/discovery/jobs-folder.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const wrongUse = new CommanderError(1, 'commander.excessArguments', 'error: too many arguments');

/** In a root with three tiers. */
async function guess(error: unknown, line: string): Promise<unknown> {
  const cwd = makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '', 'jobs/reports/c.sh': '' });
  return await guessCommand(error, { args: line.split(' '), context: { cwd, env: {} } });
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
  ['crontab -l', 'cron'],
  ['logs nothing', 'tail <script>'],
  ['logs hourly/a', 'tail hourly/a'],
  ['log b', 'tail daily/b'],
  ['rerun 58', 'run <script>'],
  ['rerun b', 'run daily/b'],
  ['retry b', 'run daily/b'],
  ['retry nothing', 'job <id> retry'],
  ['start b', 'run daily/b'],
  ['restart jobs/daily/b.sh', 'run daily/b'],
  ['a --now later', 'run hourly/a'],
  ['a.sh later', 'run hourly/a'],
  ['start hourly', 'hourly'],
  ['start hourly/clean', 'run hourly/clean'],
  ['hlep report', 'help'],
])('for `runner %s` it names `runner %s`', async (line, meant) => {
  const [first] = line.replace('--root / ', '').split(' ');
  expect(messageOf(await guess(wrongUse, line))).toBe(
    `There is no command "${first}"; did you mean \`npx folder-runner ${meant}\`?`,
  );
});

test.each([
  ['stop hourly', 'pause hourly'],
  ['stop b', 'pause daily/b'],
  ['kill daily/b', 'pause daily/b'],
  ['terminate', 'pause'],
])('for `runner %s` it names `runner %s`, and how to end a run', async (line, meant) => {
  const [first] = line.split(' ');
  expect(messageOf(await guess(wrongUse, line))).toBe(
    `There is no command "${first}"; did you mean \`npx folder-runner ${meant}\`? ` +
      'What is running goes on: `kill <pid>` ends it, and `npx folder-runner status` shows its pid.',
  );
});

test.each(['hourly daily', 'daily hourly', 'reports 7', '5', 'nothing 5', '--root x 5'])(
  'for `runner %s` it has none',
  async (line) => {
    expect(await guess(wrongUse, line)).toBe(wrongUse);
  },
);

test('with an option that there is not, the word is one only in front of it', async () => {
  const unknown = new CommanderError(1, 'commander.unknownOption', "error: unknown option '--x'");
  expect(messageOf(await guess(unknown, 'shwo --x'))).toContain('did you mean `npx folder-runner show`?');
  expect(await guess(unknown, '--x shwo hourly')).toBe(unknown);
});

test('the version is printed, whatever word stands beside it', async () => {
  const version = new CommanderError(0, 'commander.version', '0.1.0');
  expect(await guess(version, 'shwo --version')).toBe(version);
});

test.each([
  ['The tiers here are daily', false, '; did you mean `npx folder-runner job <id> bury`?'],
  ['Did you mean bulky', true, ', or `npx folder-runner job <id> bury`?'],
])('%s: the guess is added', async (begun, asks, added) => {
  const guessed = await guess(new NoSuchTier(begun, asks), 'bury');
  expect(messageOf(guessed)).toBe(begun + added);
});

test('a word that is near to nothing leads to the commands', async () => {
  const begun = 'The tiers here are daily';
  expect(messageOf(await guess(new NoSuchTier(begun, false), 'banana'))).toBe(
    `${begun}; \`npx folder-runner --help\` lists the commands.`,
  );
});

test('a slip in the name of a tier, near to a verb of jobs, names the tier alone', async () => {
  const said = new NoSuchTier('Did you mean hourly', true);
  expect(await guess(said, 'hurly')).toBe(said);
});

test.each([new UsageError('There is no tier "bury".'), new Error('There is no tier')])(
  '%s stays as it is',
  async (error) => {
    expect(await guess(error, 'bury 5')).toBe(error);
  },
);
