import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, isAbsolute } from 'node:path';
import { findProgram, isExecutable } from '../../../system/process/programs.ts';
import { BUILTINS, isInterpreter, isWrapper } from './command.ts';
import { type CrontabFormat, type CrontabJob, readLines } from './read.ts';
import { CRON_PATH } from './script.ts';

/** How the lines of a file are to be read. */
export interface DetectedFormat {
  readonly format: CrontabFormat;
  /** What it was guessed from, and how to overrule that: a sentence; null: it is certain. */
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

/** Of copies from other machines: users of many servers, and no programs. */
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
