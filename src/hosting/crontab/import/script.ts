import { basename } from 'node:path';
import { loadsCode } from '../../../settings/readers.ts';
import { shellWord } from '../../../system/base/values.ts';
import { LIKE_SH } from '../word.ts';
import type { CrontabJob } from './read.ts';

export interface ImportedScript {
  /** Five fields, or `@reboot`. */
  readonly schedule: string;
  readonly timezone: string | null;
  readonly timeout: string;
}

/** What cron has where the crontab sets no PATH. */
export const CRON_PATH = '/usr/bin:/bin';

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

/** What cron of this host sets for each command besides what the crontab says. */
type Given = ReadonlyMap<string, string>;

/**
 * What the script takes from its caller by `@env`: cron gives the runner's lines the same, and a later change of the
 * host's file counts for scripts, too.
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
