import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { nicknames } from '../../../schedule/repeat/grammar/cron.ts';
import { readIfThere } from '../../../system/base/values.ts';
import { findProgram, isExecutable } from '../../../system/process/programs.ts';
import { BUILTINS, isInterpreter, isWrapper } from './command.ts';

/** A line of a crontab that runs a command. */
export interface CrontabJob {
  readonly kind: 'job';
  /** Counted from 1. */
  readonly line: number;
  /** The whole line, without its end. */
  readonly text: string;
  /** Five fields with one blank between, or `@reboot`. */
  readonly times: string;
  /** As it stands in the line. */
  readonly command: string;
  /** As whom `/etc/cron.d` runs it; null: in a crontab of a user. */
  readonly user: string | null;
  /** Variables that lines above it set, in their order. */
  readonly variables: ReadonlyMap<string, string>;
  /** Variables at the end of the crontab, where the runner's lines stand. */
  readonly atEnd: ReadonlyMap<string, string>;
  /** The program that writes this line and may write it again; null: a person. */
  readonly manager: string | null;
}

/** A line that cron does not understand, either. */
export interface MalformedLine {
  readonly kind: 'malformed';
  readonly line: number;
  readonly text: string;
  readonly problem: string;
}

/** `cron.d`: with a user's name behind the times, as in `/etc/cron.d` and `/etc/crontab`. */
export type CrontabFormat = 'crontab' | 'cron.d';

/**
 * Reads a crontab as cron does: a variable counts for the lines below it. Comments, blank lines and the runner's own
 * blocks give nothing.
 *
 * @param text in Latin-1, so that each byte is one character
 */
export function readLines(text: string, format: CrontabFormat): (CrontabJob | MalformedLine)[] {
  const variables = new Map<string, string>();
  const managers = new Managers();
  const found: (CrontabJob | MalformedLine)[] = [];
  text.split('\n').forEach((whole, index) => {
    // Cron would hand a carriage return to the shell.
    const content = whole.replace(/\r$/, '');
    managers.pass(content);
    if (managers.isOwn || /^[ \t]*(?:#|$)/.test(content)) return;
    const place = { line: index + 1, text: content };
    const variable = readVariable(content);
    if (variable !== null) {
      variables.set(variable.name, variable.value);
      return;
    }
    const job = readJob(content, format);
    if ('problem' in job) found.push({ kind: 'malformed', ...place, ...job });
    else {
      const around = { variables: new Map(variables), atEnd: variables, manager: managers.takeCurrent() };
      found.push({ kind: 'job', ...place, ...job, ...around });
    }
  });
  return found;
}

/** The name may be quoted, and so may the value; nothing in it is expanded, and `#` begins no comment. */
const VARIABLE = /^[ \t]*(?:"([^"]*)"|'([^']*)'|([^\s=]+))[ \t]*=[ \t]*(?:"([^"]*)"|'([^']*)'|([^"' \t].*?|))[ \t]*$/;

function readVariable(line: string): { readonly name: string; readonly value: string } | null {
  const [, ...parts] = VARIABLE.exec(line) ?? [];
  const name = parts.slice(0, 3).find((part) => part !== undefined);
  const value = parts.slice(3).find((part) => part !== undefined);
  return name === undefined || value === undefined ? null : { name, value };
}

type ReadJob = Pick<CrontabJob, 'times' | 'command' | 'user'> | { readonly problem: string };

/** A minus before the times keeps the line out of the system's log; it is no part of the command. */
const JOB = /^[ \t]*-?(?<times>@\S+|(?:[^\s@]\S*[ \t]+){4}\S+)[ \t]+(?<rest>\S.*)$/s;

function readJob(line: string, format: CrontabFormat): ReadJob {
  const { times: written = '', rest = '' } = JOB.exec(line)?.groups ?? {};
  if (written === '') return { problem: describeMissing(line) };
  const times = written.startsWith('@') ? readNickname(written.toLowerCase()) : written.replaceAll(/[ \t]+/g, ' ');
  if (times === undefined) return { problem: `${written} is not a time that cron knows` };
  if (format === 'crontab') return { times, command: rest, user: null };
  const [, user = '', command = ''] = /^(\S+)[ \t]+(\S.*)$/s.exec(rest) ?? [];
  return command === '' ? { problem: 'it has no command after the user' } : { times, command, user };
}

function readNickname(word: string): string | undefined {
  return word === '@reboot' ? word : nicknames.get(word);
}

function describeMissing(line: string): string {
  if (/^[ \t]*[A-Za-z_]\w*[ \t]*=/.test(line)) return 'its value does not end where its quotes end';
  return 'it needs five fields with the times, then a command';
}

/** How programs mark what they write: from a line to another one, or what comes next. */
const BLOCKS: readonly (readonly [name: string, begin: RegExp, end: RegExp])[] = [
  ['folder-runner', /^# BEGIN folder-runner /, /^# END folder-runner /],
  ['whenever', /^# Begin Whenever generated tasks/, /^# End Whenever generated tasks/],
  ['Magento', /^#~ MAGENTO START/, /^#~ MAGENTO END/],
  ['Ansible', /^# BEGIN ANSIBLE MANAGED/, /^# END ANSIBLE MANAGED/],
];
const NEXT_LINES: readonly (readonly [name: string, marker: RegExp])[] = [
  ['Ansible', /^#Ansible: /],
  ['Puppet', /^# Puppet Name: /],
  ['Salt', /^# SALT_CRON_IDENTIFIER:/],
];

/** Recognizes the program that wrote the lines by the comments among them. */
class Managers {
  #block: (typeof BLOCKS)[number] | null = null;
  #next: string | null = null;

  pass(line: string): void {
    if (this.#block?.[2].test(line)) this.#block = null;
    this.#block ??= BLOCKS.find(([, begin]) => begin.test(line)) ?? null;
    this.#next = NEXT_LINES.find(([, marker]) => marker.test(line))?.[0] ?? this.#next;
  }

  get isOwn(): boolean {
    return this.#block?.[0] === 'folder-runner';
  }

  /** A comment of the second kind is of one line. */
  takeCurrent(): string | null {
    const current = this.#block?.[0] ?? this.#next;
    this.#next = null;
    return current;
  }
}

/** Variables that cron sets itself, whatever PAM sets. */
const OF_CRON = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'USER'];

/**
 * The variables that cron of this host gives each command besides those of the crontab: Debian's and Enterprise
 * Linux's have them from PAM, out of `/etc/environment` and `/etc/default/locale`.
 *
 * @param system where the files of the system are
 * @returns each variable with its value
 */
export function readVariablesOfCron(system = '/'): ReadonlyMap<string, string> {
  const lines = ['cron', 'crond'].map((service) => readService(system, service, 0)).find(({ length }) => length > 0);
  const files = (lines ?? []).flatMap(environmentFileOf);
  const all = files.flatMap((file) => readAssignments(readIfThere(join(system, file), 'latin1')));
  return new Map(all.filter(([name]) => !OF_CRON.includes(name)));
}

const DEEPEST = 8;

/** The lines of a service of PAM, with those that it includes. */
function readService(system: string, name: string, depth: number): string[] {
  if (depth > DEEPEST || name.includes('/')) return [];
  const text = readIfThere(join(system, 'etc/pam.d', name), 'latin1').replaceAll(/\\\n/g, ' ');
  if (text === '') return [];
  return text.split('\n').flatMap((line) => {
    const [, all, some] = /^\s*(?:@include\s+(\S+)|-?(?:auth|session)\s+(?:include|substack)\s+(\S+))/.exec(line) ?? [];
    const included = all ?? some;
    return included === undefined ? [line] : readService(system, included, depth + 1);
  });
}

/** `session required pam_env.so envfile=/etc/default/locale` */
function environmentFileOf(line: string): readonly string[] {
  const [, options] = /^\s*-?(?:auth|session)\s+(?:\[[^\]]*\]|\S+)\s+(?:\S*\/)?pam_env\.so\b([^#]*)/.exec(line) ?? [];
  if (options === undefined || /\breadenv=0\b/.test(options)) return [];
  return [/\benvfile=(\S+)/.exec(options)?.[1] ?? '/etc/environment'];
}

/** As PAM reads them: `export` is left out, and so are the quotes around a value. */
function readAssignments(text: string): [string, string][] {
  return text.split('\n').flatMap((line) => {
    const [, name, value = ''] = /^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*?)\s*$/.exec(line) ?? [];
    return name === undefined ? [] : [[name, value.replace(/^(["'])(.*)\1$/, '$2')]];
  });
}

/** The PATH of cron's commands, unless the crontab sets one. */
export const CRON_PATH = '/usr/bin:/bin';

/** How the lines of a file are to be read. */
interface DetectedFormat {
  readonly format: CrontabFormat;
  /** The guess, and how to overrule it: one sentence; null: the format is certain. */
  readonly note: string | null;
}

/** Whether lines have a user's name behind the times: by where the file is, or by the words that stand there. */
export function detectCrontabFormat(crontab: Buffer, path: string | null): DetectedFormat {
  const certain = (format: CrontabFormat): DetectedFormat => ({ format, note: null });
  if (path !== null && /^\/etc\/(?:cron\.d\/|crontab$)/.test(path)) return certain('cron.d');
  const jobs = readJobs(crontab, 'cron.d');
  // A line of one word has no room for a user.
  if (jobs.length === 0 || jobs.length < readJobs(crontab, 'crontab').length) return certain('crontab');
  if (!jobs.every(mayNameUser)) return certain('crontab');
  const names = [...new Set(jobs.map(({ user }) => user ?? ''))];
  const users = readUsers();
  if (names.every((name) => users.has(name)) || names.some((name) => COMMON_USERS.has(name))) return certain('cron.d');
  const [name = '', ...others] = names;
  if (others.length > 0) return certain('crontab');
  if (jobs.every(isCommandForSure)) {
    const note = `${name} is taken for a user, as in /etc/cron.d; if it is a program, add --format crontab.`;
    return { format: 'cron.d', note };
  }
  if (!jobs.every(mayBeCommand)) return certain('crontab');
  const note = `${name} is taken for a program; if it is a user, as in /etc/cron.d, add --format cron.d.`;
  return { format: 'crontab', note };
}

function readJobs(crontab: Buffer, format: CrontabFormat): CrontabJob[] {
  return readLines(crontab.toString('latin1'), format).filter((each) => each.kind === 'job');
}

/** Users of many servers, for copies from other machines; none is a program. */
const COMMON_USERS: ReadonlySet<string> = new Set([
  ...['root', 'nobody', 'daemon', 'www-data', 'apache', 'httpd', 'nginx', 'wwwrun', 'webapps'],
  ...['postgres', 'ubuntu', 'debian', 'centos', 'ec2-user', 'vagrant'],
]);

function readUsers(): ReadonlySet<string> {
  const file = '/etc/passwd';
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  return new Set(lines.map((line) => line.split(':', 1)[0] ?? ''));
}

/** Whether the word behind the times has the form of a user's name, and is no program: that has options behind it. */
function mayNameUser(job: CrontabJob): boolean {
  const name = job.user ?? '';
  if (job.command.startsWith('-')) return false;
  if (!/^[a-z_][\w-]*$/i.test(name) || BUILTINS.test(name) || isInterpreter(name) || isWrapper(name)) return false;
  return findOnPath(name, job) === null;
}

function findOnPath(name: string, { variables }: CrontabJob): string | null {
  const path = `${variables.get('PATH') ?? ''}:${CRON_PATH}`;
  return findProgram(name, path.split(':').filter(isAbsolute).join(':'));
}

/** No argument looks so: a program by its full path, or `php` and the like. */
function isCommandForSure({ command }: CrontabJob): boolean {
  const [word = ''] = command.split(/\s/, 1);
  if (!isAbsolute(word)) return isInterpreter(word);
  return isExecutable(word) && statSync(word).isFile();
}

/** An argument may look so: `docker exec …`, `rclone sync …`. */
function mayBeCommand(job: CrontabJob): boolean {
  const [word = ''] = job.command.split(/\s/, 1);
  if (isCommandForSure(job) || /\/s?bin\//.test(word) || /\.(?:sh|php|py|pl|rb)$/.test(word)) return true;
  return BUILTINS.test(word) || isWrapper(word) || (basename(word) === word && findOnPath(word, job) !== null);
}
