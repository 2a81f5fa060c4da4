import { basename } from 'node:path';
import { parseTierPeriod, tierPeriodMs } from '../../../schedule/period.ts';
import { loadsCode } from '../../../settings/readers.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, shellWord } from '../../../system/base/values.ts';
import { LIKE_SH } from '../own-line.ts';
import { CRON_PATH, type CrontabJob } from './read.ts';

interface ImportedScript {
  /** Five fields, or `@reboot`. */
  readonly schedule: string;
  readonly timezone: string | null;
  readonly timeout: string;
}

/**
 * The script that does what cron did with a line: its environment, its folder, its standard input and the command,
 * unchanged.
 *
 * @returns in Latin-1, as the line is
 */
export function composeScript(job: CrontabJob, given: Given, { schedule, timezone, timeout }: ImportedScript): string {
  const shell = job.variables.get('SHELL') ?? '/bin/sh';
  const { command, input } = splitInput(job.command);
  return [
    // Any other shell gets the command as cron hands it over.
    `#!${LIKE_SH.test(shell) ? shell : '/bin/sh'}`,
    // Not at the beginning of its line: `@daily` would be read as a tag.
    `# Line ${job.line} of the crontab: ${job.text.trim()}`,
    schedule === '@reboot' ? '# @reboot' : `# @schedule ${schedule}`,
    ...(timezone === null ? [] : [`# @timezone ${timezone}`]),
    `# @timeout ${timeout}`,
    ...passedOn(job, given).map((name) => `# @env ${name}`),
    ...variablesOf(job, given).map(([name, value]) => `export ${name}=${shellWord(value)}`),
    ...(hasNoLocale(job, given) ? ['unset LANG'] : []),
    'cd "$HOME" || exit',
    ...(input === null ? [] : [`exec <<${hereDocument(input)}`]),
    mayStandAlone(shell, command, job) ? command : `exec ${shellWord(shell)} -c ${shellWord(command)}`,
    '',
  ].join('\n');
}

/** Whether the script's own shell can run it as the shell that cron starts does. */
function mayStandAlone(shell: string, command: string, { variables }: CrontabJob): boolean {
  // Bash reads that file when it starts; the script's own has started before it sets the variable.
  const readsFile = basename(shell) === 'bash' && variables.has('BASH_ENV');
  return LIKE_SH.test(shell) && !continues(command) && !readsFile;
}

/** They stay cron's: what a script is called with is whose it is. */
const NOT_SETTABLE = ['LOGNAME', 'USER'];

const NAME = /^[A-Za-z_]\w*$/;

/** Variables that cron of this host adds to those of the crontab. */
type Given = ReadonlyMap<string, string>;

/**
 * The variables for `@env`: cron gives them to the runner's lines, too, so a later change of the host's file counts for scripts.
 */
export function passedOn({ variables, atEnd }: CrontabJob, given: Given): string[] {
  return [...given.keys()].filter((name) => !variables.has(name) && !atEnd.has(name) && !loadsCode(name));
}

/** The runner's lines have another value, as the crontab sets it above them, or may not pass it on. */
function writtenOut({ variables, atEnd }: CrontabJob, given: Given): [string, string][] {
  return [...given].filter(([name]) => !variables.has(name) && (atEnd.has(name) || loadsCode(name)));
}

function variablesOf(job: CrontabJob, given: Given): [string, string][] {
  const all = new Map([['PATH', CRON_PATH], ...writtenOut(job, given), ...job.variables]);
  return [...all].filter(([name]) => NAME.test(name) && !NOT_SETTABLE.includes(name));
}

/** Scripts have a locale without asking, and this command has had none. */
function hasNoLocale({ variables }: CrontabJob, given: Given): boolean {
  return !variables.has('LANG') && !given.has('LANG');
}

/**
 * Up to the first `%` it is the command; what follows is its standard input, with a line for each `%`. `\%` is a percent
 * sign.
 */
export function splitInput(command: string): { readonly command: string; readonly input: string | null } {
  const [, start = '', rest = null] = /^((?:\\.|[^%\\]|\\$)*)(?:%(.*))?$/s.exec(command) ?? [];
  const plain = (text: string) => text.replaceAll('\\%', '%');
  if (rest === null) return { command: plain(start), input: null };
  const lines = rest.replaceAll(/(\\%)|%/g, (_, escaped) => (escaped ? '%' : '\n'));
  return { command: plain(start), input: lines === '' || lines.endsWith('\n') ? lines : `${lines}\n` };
}

function hereDocument(input: string): string {
  const lines = input.split('\n');
  let end = 'END';
  while (lines.includes(end)) end += '_';
  return `'${end}'\n${input}${end}`;
}

/** Whether it ends in a backslash: a crontab has no line that goes on, but a file does. */
export function continues(command: string): boolean {
  return /(?<!\\)(?:\\\\)*\\$/.test(command);
}

/** Every one of them divides an hour, so that cron itself can say it. */
const MINUTES = [30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1];

/** From the coarsest on. A pass of more days would begin on another day. */
const COARSE = ['daily', '12hours', '8hours', '6hours', '4hours', '3hours', '2hours', 'hourly'];

/** Hosts that limit how often cron may call allow this. */
const FOR_TIMES_OF_DAY = '15min';

/** A command that first waits longer than this at random does not care when it runs. */
const LONG_WAIT_SECONDS = 300;

/** The facts that decide the tier of a line. */
interface TierNeeds {
  /** The shortest time between two of its times. */
  readonly gapMs: number;
  /** The last of its times on a day, in minutes from midnight. */
  readonly lastMinute: number;
  /** How long it waits at random before it does anything. */
  readonly randomStartSeconds: number;
}

/**
 * The tier of a line, by the shortest gap between its times. Within the hour it is the coarsest tier that has a pass
 * for each time. A time of the day was chosen by somebody, so the line goes to a tier whose pass comes soon after it. A
 * line that first waits long at random would hold up the others there, and goes to a tier with rare passes. Each tier
 * has a pass between the line's last time of a day and midnight: otherwise a line for the 31st, or for Fridays, would
 * run on the next day.
 */
export function chooseTier(schedule: string, { gapMs, lastMinute, randomStartSeconds }: TierNeeds): string {
  if (schedule === '@reboot') return FOR_TIMES_OF_DAY;
  const mayBe = (tier: string) => {
    const periodMs = tierPeriodMs(tier) ?? 0;
    return periodMs <= gapMs && lastMinute * MINUTE_MS + periodMs <= DAY_MS;
  };
  const candidates = [
    ...(randomStartSeconds > LONG_WAIT_SECONDS ? COARSE : isEveryHour(schedule) ? ['hourly'] : []),
    ...(gapMs < HOUR_MS ? [] : [FOR_TIMES_OF_DAY]),
    ...MINUTES.filter((minutes) => gapMs < HOUR_MS || minutes < 15).map((minutes) => `${minutes}min`),
  ];
  return candidates.find(mayBe) ?? '1min';
}

/** Whether nearly each pass of its tier runs the script. */
export function runsInEachPass(tier: string, gapMs: number): boolean {
  return gapMs < 2 * (tierPeriodMs(tier) ?? 0);
}

function isEveryHour(schedule: string): boolean {
  return /^\d+ (?:\*|\*\/1|0-23) \* \* \*$/.test(schedule);
}

/** How long after its time a script of a tier may begin: "15 minutes"; null: at most a minute. */
export function describeLateness(tier: string): string | null {
  const { count, unit } = parseTierPeriod(tier) ?? { count: 1, unit: 'min' };
  if (unit === 'min') return count === 1 ? null : `${count} minutes`;
  const name = unit === 'hours' ? 'hour' : unit === 'days' ? 'day' : 'week';
  return count === 1 ? `${name === 'hour' ? 'an' : 'a'} ${name}` : `${count} ${name}s`;
}

const LEAST_HOURS = 1;
const MOST_HOURS = 6;

/** Cron ends nothing: a limit that what used to work does not reach, and that what hangs does. */
export function chooseTimeout(gapMs: number, waitSeconds: number): string {
  const hours = Math.min(MOST_HOURS, Math.max(LEAST_HOURS, Math.floor(gapMs / HOUR_MS)));
  return `${hours + Math.ceil(waitSeconds / 3600)}h`;
}
