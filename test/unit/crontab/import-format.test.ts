import { expect, test } from 'vitest';
import { detectCrontabFormat } from '../../../src/hosting/crontab/import/read.ts';
import { crontabNames, readCrontabFile } from '../../processes/crontab/sandbox.ts';
import { runCommand } from '../../support/command.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

const detect = (lines: readonly string[], path: string | null = null) =>
  detectCrontabFormat(Buffer.from(`${lines.join('\n')}\n`), path);

test.each(crontabNames)('%s is read as what it is, without a doubt', (name) => {
  const format = name === 'certbot' ? 'cron.d' : 'crontab';
  expect(detectCrontabFormat(Buffer.from(readCrontabFile(name), 'latin1'), null)).toEqual({ format, note: null });
});

test.each([
  ['a user of this machine', ['@daily daemon run-it --all']],
  ['users of most servers, though not of this one', ['@daily www-data run-it', '5 * * * * nginx run-it']],
  ['root beside a user that nobody knows', ['@daily root run-it', '5 * * * * shopkeeper run-it']],
])('lines with %s are those of cron.d', (_, lines) => {
  expect(detect(lines)).toEqual({ format: 'cron.d', note: null });
});

test('a file in /etc/cron.d is one, whatever it holds', () => {
  expect(detect(['@daily rclone sync a b'], '/etc/cron.d/site')).toEqual({ format: 'cron.d', note: null });
});

test.each([
  [['@daily shopkeeper /bin/sh /srv/clean.sh', '5 * * * * shopkeeper php8.2 /srv/cron.php']],
  [['MAILTO=me', '@reboot shopkeeper /usr/bin/env sh /srv/start.sh']],
])('before a program each time, an unknown word is taken for a user, and that is said: %j', (lines) => {
  const note = 'shopkeeper is taken for a user, as in /etc/cron.d; if it is a program, add --format crontab.';
  expect(detect(lines)).toEqual({ format: 'cron.d', note });
});

test.each([
  [['@daily shopkeeper exec web', '5 * * * * shopkeeper sync /srv']],
  [['@daily shopkeeper /opt/shop/bin/clean']],
  [['@daily shopkeeper cd /srv && ./clean']],
])('before what may be an argument as well, it stays a program, and that is said: %j', (lines) => {
  const note = 'shopkeeper is taken for a program; if it is a user, as in /etc/cron.d, add --format cron.d.';
  expect(detect(lines)).toEqual({ format: 'crontab', note });
});

test.each([
  [['@daily wp cron event run --due-now']],
  [['@daily restic backup /srv']],
  [['@daily nginx -s reload']],
  [['@daily php /bin/true']],
  [['@daily chronic /bin/true']],
  [['@daily env /bin/true']],
  [['@daily shopkeeper']],
  [['@daily shopkeeper /bin/true', '@daily clean-up']],
  [['@daily shopkeeper /bin/true', '@daily docker exec web']],
  [['@daily shopkeeper /srv']],
  [['@daily bin/shopkeeper /bin/true']],
  [['# nothing']],
])('other lines are those of a crontab: %j', (lines) => {
  expect(detect(lines)).toEqual({ format: 'crontab', note: null });
});

test('the doubt is a note beside the plan, and --format ends it', () => {
  const call = (...args: readonly string[]) =>
    runCommand(['cron', '--import', '-', '--json', ...args], {
      cwd: makeTemporaryRoot(),
      env: makeFakeCrontab().env,
      input: '@daily shopkeeper /bin/sh /srv/clean.sh\n',
    });
  const commandOf = ({ stdout }: { readonly stdout: string }): string => JSON.parse(stdout).lines[0].command;
  const guessed = call();
  expect(guessed.stderr).toMatch(/^Note: shopkeeper is taken for a user, .*\n$/);
  expect(commandOf(guessed)).toBe('/bin/sh /srv/clean.sh');
  const told = call('--format', 'crontab');
  expect([told.stderr, commandOf(told)]).toEqual(['', 'shopkeeper /bin/sh /srv/clean.sh']);
});
