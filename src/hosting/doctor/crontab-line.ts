import { type CrontabCall, readCall } from './read-call.ts';
import { parseShellLine } from './shell-commands.ts';

/** What cron gives a line besides PATH and SHELL. */
export interface CronUser {
  readonly home: string;
  readonly name: string;
}

/** A line of the crontab that calls this package's command, for whatever root. */
export interface CrontabLine extends CrontabCall {
  readonly number: number;
  /** The five fields, or `@daily`. */
  readonly time: string;
  /** What keeps cron from running it as it is meant. */
  readonly flaws: readonly string[];
  /** Between the marker lines of `runner cron --install`, which writes it anew. */
  readonly isMarked: boolean;
}

const assignment = /^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/;
const marker = /^# (?:BEGIN|END) folder-runner /;
const timed = /^\s*(@\w+|(?:[^\s#]+\s+){4}[^\s#]+)\s+(.*)$/;

/** The lines that call the command. */
export function parseCrontab(text: string, user: CronUser): CrontabLine[] {
  let env: NodeJS.ProcessEnv = {
    HOME: user.home,
    LOGNAME: user.name,
    SHELL: '/bin/sh',
    PATH: '/usr/bin:/bin',
  };
  const lines = text.split('\n');
  let isMarked = false;
  return lines.flatMap((line, index) => {
    const [, name, value] = assignment.exec(line) ?? [];
    if (name !== undefined && value !== undefined) {
      env = { ...env, [name]: value.replace(/^(['"])(.*)\1$/, '$2') };
      return [];
    }
    if (marker.test(line)) isMarked = line.startsWith('# BEGIN');
    const isLast = index === lines.length - 1;
    const found = parseLine({ text: line, number: index + 1, isMarked }, env);
    return found === null ? [] : [isLast ? withoutNewline(found) : found];
  });
}

/** Vixie cron reads a line only up to its end, and the last one has none. */
function withoutNewline(line: CrontabLine): CrontabLine {
  return {
    ...line,
    flaws: [...line.flaws, 'has no newline at its end, so many crons leave it out'],
  };
}

interface WrittenLine {
  readonly text: string;
  readonly number: number;
  readonly isMarked: boolean;
}

function parseLine(line: WrittenLine, env: NodeJS.ProcessEnv): CrontabLine | null {
  const { text, number, isMarked } = line;
  const [, time, written] = timed.exec(text.replace(/\r$/, '')) ?? [];
  if (time === undefined || written === undefined) return null;
  const call = readCall(parseShellLine(cutAtPercent(written), env.HOME ?? '/') ?? [], env);
  return call === null ? null : { number, time, isMarked, flaws: flawsOf(text, written), ...call };
}

function flawsOf(text: string, command: string): string[] {
  return [
    ...(text.endsWith('\r')
      ? ['ends in a carriage return, which becomes part of its last word']
      : []),
    ...(isCut(command) ? ['has a % without a backslash, where cron cuts it off'] : []),
  ];
}

/** To cron an unescaped `%` is the end of the command. */
function cutAtPercent(command: string): string {
  return (/^(?:\\[\s\S]|[^%\\])*/.exec(command)?.[0] ?? '').replaceAll('\\%', '%');
}

function isCut(command: string): boolean {
  return /(?:^|[^\\])%/.test(command);
}
