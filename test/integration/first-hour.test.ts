import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Cron } from 'croner';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { queryLog } from '../support/log.ts';
import { expectShown, readExamples, repository } from '../support/site.ts';
import { until } from '../support/until.ts';
import { type CronDaemon, catchMail, type MailCatcher, startCronDaemon } from './cron-daemon.ts';
import { addCronUser, type CronUser } from './cron-user.ts';

/*
 * The first hour of somebody who has a crontab: each command of README's first sections and of docs/cron.md's import is
 * typed into a terminal as it stands there, in an account that has only the packed package.
 *
 * Cron's daemon calls a line of each minute by itself. Nobody can move its clock without moving the machine's; therefore
 * the other lines are called as it would, from midnight on Sunday until Monday's morning, with the clock of each call
 * moved by libfaketime.
 */

const LIBFAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** One more line than the page has, so that the daemon itself has something to call soon. */
const EACH_MINUTE = '* * * * * echo "minute of $LOGNAME"';

/** A Sunday that is to come, in the zone of the machine. */
const sunday = new Date();
sunday.setDate(sunday.getDate() + 7 - sunday.getDay());
sunday.setHours(23, 0, 0, 0);
const monday = new Date(sunday.getTime() + 9.5 * 3_600_000);

let user: CronUser;
let daemon: CronDaemon;
let mail: MailCatcher;
let site: string;
let terminal: Terminal;

beforeAll(async () => {
  mail = catchMail();
  user = addCronUser();
  site = join(user.home, 'runner');
  daemon = await startCronDaemon();
  terminal = openTerminal(user, user.home);
}, 120_000);

afterAll(() => {
  terminal?.close();
  daemon?.stop();
  user?.remove();
  mail?.remove();
});

test("a newcomer's crontab becomes scripts that run at the right times, and the report says so", async () => {
  user.run('crontab', ['-'], Buffer.from(`${EACH_MINUTE}\n`));

  // README, up to the mail. The package is installed already, from the tarball: no registry has this version.
  const [install = [], fail = []] = commandsOf('README.md');
  expect(install).toHaveLength(4);
  expect(install[1]).toBe('npm install folder-runner');
  expect(fail).toHaveLength(1);
  for (const command of [install[0], ...install.slice(2), fail[0]]) await terminal.type(command as string);
  const failures = () => mail.readMails().filter((text) => text.includes('did not succeed'));
  await until('cron has mailed the failure', () => failures().length > 0, 150_000);
  const promised = readExamples('README.md').find(({ content }) => content.startsWith('Subject: '))?.content ?? '';
  expectShown(
    promised.replaceAll('/home/me/runner', '/home/me/site'),
    cutMail(failures()[0] as string),
    site,
    'the mail in README.md',
  );
  await terminal.type('rm -r jobs/1min && npx folder-runner cron --install');

  // The import, up to where it goes back.
  const lines = readExamples('docs/cron.md').find(({ file }) => file === 'my-crontab.txt')?.content ?? '';
  writeFileSync(join(site, 'my-crontab.txt'), lines);
  user.ownHome();
  const blocks = commandsOf('docs/cron.md', 'Import');
  const undo = blocks.findIndex(([first]) => first === 'npx folder-runner cron --undo');
  expect(undo).toBeGreaterThan(0);
  for (const command of blocks.slice(0, undo).flat()) await terminal.type(command);
  // Its number is another one where cron has called the script of each minute meanwhile.
  expect(terminal.screen()).toMatch(/^ +\d+ {2}\S+ \S+ {2}succeeded/m);

  // Cron's daemon.
  const ended = () => runsOf('1min/echo').filter(({ outcome }) => outcome !== 'running');
  await until('cron has called the script of each minute', () => ended().length > 0, 150_000);
  expect(ended()[0]).toMatchObject({ outcome: 'succeeded', output: `minute of ${user.name}\n` });

  // A night, and the morning after it.
  const installed = user.run('crontab', ['-l']);
  user.run('crontab', ['-r']);
  await until('cron is idle', () => daemon.isIdle(), 60_000);
  // What was missed in the days between comes in the first pass.
  for (const call of callsBetween(installed.toString(), new Date(sunday.getTime() - 1_800_000), monday)) runAt(call);
  const quarters = (script: string) => runsOf(script, sunday.getTime()).map(({ started_at }) => quarterOf(started_at));
  expect(quarters('15min/tar')).toEqual(['02:30']);
  expect(quarters('15min/weekly-report')).toEqual(['07:00']);
  expect(quarters('15min/find')).toHaveLength(38);
  expect(new Set(quarters('15min/find')).size).toBe(38);
  expect(runsOf('15min/weekly-report', sunday.getTime())[0]).toMatchObject({
    outcome: 'succeeded',
    output: 'All is well.\n',
  });

  await terminal.type(
    `export LD_PRELOAD=${LIBFAKETIME} FAKETIME='${faketimeOf(monday)}' FAKETIME_DONT_FAKE_MONOTONIC=1`,
  );
  await terminal.type('npx folder-runner report');
  await terminal.type('unset LD_PRELOAD FAKETIME');
  const shown = terminal.screen();
  for (const name of ['find', 'tar', 'weekly-report'])
    expect(shown).toMatch(new RegExp(`^ {2}${name} +\\S.* succeeded`, 'm'));

  user.run('crontab', ['-'], installed);
  await terminal.type('npx folder-runner cron --undo');
  const left = user.run('crontab', ['-l']).toString();
  expect(left).toContain(`${EACH_MINUTE}\n`);
  for (const line of lines.trimEnd().split('\n')) expect(left).toContain(`\n${line}\n`);
}, 900_000);

/** Its subject and its text, with the sender that README names. */
function cutMail(mail: string): string {
  const subject = /^Subject: .+$/m.exec(mail)?.[0].replace(`<${user.name}@${hostname()}>`, '<me@web3>');
  return `${subject}\n\n${mail.slice(mail.indexOf('\n\n') + 2)}`;
}

/** The `sh` blocks of a page, or of one of its sections, each with its lines. */
function commandsOf(page: string, section?: string): string[][] {
  const text = readFileSync(join(repository, page), 'utf8');
  const part = section === undefined ? text : (text.split(`\n## ${section}\n`)[1]?.split('\n## ')[0] ?? '');
  const blocks = readExamples(page).filter(({ language, file }) => language === 'sh' && file === null);
  const shown = blocks.filter(({ content }) => part.includes(`\`\`\`sh\n${content}\`\`\``));
  return shown.map(({ content }) => content.trimEnd().split('\n'));
}

/** The quarter of an hour that an instant is in, by the clock of the machine. */
function quarterOf(ms: number): string {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes() - (at.getMinutes() % 15)]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}

interface LoggedRun {
  readonly started_at: number;
  readonly outcome: string;
  readonly output: string;
}

function runsOf(script: string, fromMs = 0): LoggedRun[] {
  const sql = 'select started_at, outcome, output from runs where script = ? and started_at >= ? order by id';
  return queryLog<LoggedRun>(site, sql, script, fromMs);
}

interface Call {
  readonly at: Date;
  readonly command: string;
}

/** What cron would call of the root's block, in its order. */
function callsBetween(crontab: string, from: Date, to: Date): Call[] {
  const lines = crontab
    .split('\n')
    .filter((line) => /^[\d*]/.test(line) && line.includes(' sh ~/.folder-runner/cron '));
  const calls = lines.flatMap((line) => {
    const [, fields = '', command = ''] = /^((?:\S+ ){5})(.*)$/.exec(line) ?? [];
    if (command.includes('cron 1min ')) return [];
    const cron = new Cron(fields.trim(), { startAt: from, paused: true });
    const times: Date[] = [];
    for (let at = cron.nextRun(from); at !== null && at <= to; at = cron.nextRun(at)) times.push(at);
    return times.map((at) => ({ at, command: command.replaceAll('\\%', '%') }));
  });
  return calls.sort((one, other) => one.at.getTime() - other.at.getTime());
}

function faketimeOf(at: Date): string {
  const part = (value: number) => String(value).padStart(2, '0');
  const day = [at.getFullYear(), part(at.getMonth() + 1), part(at.getDate())].join('-');
  return `@${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(part).join(':')}`;
}

/** As cron calls it, but for the clock. */
function runAt({ at, command }: Call): void {
  const env = { LD_PRELOAD: LIBFAKETIME, FAKETIME: faketimeOf(at), FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  const words = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  // The examples that init has made have nothing to look at here: some of them fail.
  user.run('env', [...words, 'SHELL=/bin/sh', '/bin/sh', '-c', `${command} || true`]);
}

interface Terminal {
  /** Types a line, and waits until the prompt is back: what failed fails the test. */
  type(line: string): Promise<void>;
  screen(): string;
  close(): void;
}

function openTerminal({ name, home, nodePath }: CronUser, cwd: string): Terminal {
  const socket = join(home, 'tmux');
  const id = (option: string) => Number(execFileSync('id', [option, name]));
  const path = `${join(nodePath, '..')}:/usr/local/bin:/usr/bin:/bin`;
  const env = { HOME: home, LOGNAME: name, USER: name, PATH: path, TERM: 'xterm-256color', LANG: 'C.UTF-8' };
  const tmux = (...args: string[]) =>
    execFileSync('tmux', ['-S', socket, ...args], {
      uid: id('--user'),
      gid: id('--group'),
      cwd,
      env,
      encoding: 'utf8',
    });
  tmux(
    '-f',
    '/dev/null',
    'new-session',
    '-d',
    '-x',
    '120',
    '-y',
    '200',
    'env',
    'PS1=[\\#:$?] ',
    'bash',
    '--norc',
    '--noprofile',
  );
  const screen = () => tmux('capture-pane', '-p', '-J').trimEnd();
  const prompt = () => /^\[(\d+):(\d+)\]$/.exec(screen().split('\n').at(-1) ?? '');
  return {
    type: async (line) => {
      await until('the prompt is there', () => prompt() !== null, 30_000);
      const number = Number(prompt()?.[1]);
      tmux('clear-history');
      tmux('send-keys', '-l', '--', line);
      tmux('send-keys', 'Enter');
      await until(`${line} has ended`, () => Number(prompt()?.[1]) > number, 120_000);
      expect({ line, status: prompt()?.[2], screen: screen() }).toMatchObject({ line, status: '0' });
    },
    screen,
    close: () => void spawnSync('tmux', ['-S', socket, 'kill-server']),
  };
}
