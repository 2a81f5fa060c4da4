import { resolve } from 'node:path';
import { findRoot } from '../../config/root.ts';
import { parseShellLine, type ShellCommand } from './shell-commands.ts';

/** What cron gives a line besides PATH and SHELL. */
export interface CronUser {
  readonly home: string;
  readonly name: string;
}

/** A line of the crontab that calls this package's command, for whatever root. */
export interface CrontabLine {
  readonly number: number;
  /** The five fields, or `@daily`. */
  readonly time: string;
  /** The words that call it, without redirections. */
  readonly words: readonly string[];
  /** False where the shell would make other words of them. */
  readonly isCertain: boolean;
  /** What stands after the command's own path and options: `hourly`, `due`, `run`. */
  readonly call: string | null;
  /** Null where it finds none by itself. */
  readonly root: string | null;
  /** The root that it names, and that may not be there. */
  readonly namedRoot: string | null;
  /** What cron runs it with: its own few variables, and those that the crontab sets above it. */
  readonly env: NodeJS.ProcessEnv;
  /** What keeps cron from running it as it is meant. */
  readonly flaws: readonly string[];
  /** Between the marker lines of `runner cron --install`, which writes it anew. */
  readonly isMarked: boolean;
}

const assignment = /^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$/;
const marker = /^# (?:BEGIN|END) folder-runner /;
const timed = /^\s*(@\w+|(?:[^\s#]+\s+){4}[^\s#]+)\s+(.*)$/;
const commandName = /(?:^|\/)(?:bin\.cjs|runner|folder-runner)$/;

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
  const commands = parseShellLine(cutAtPercent(written), env.HOME ?? '/') ?? [];
  const found = commands.find(({ words }) => words.some((word) => commandName.test(word)));
  if (found === undefined) return null;
  return {
    number,
    time,
    isMarked,
    flaws: flawsOf(text, written),
    ...readCall(found, commands, env),
  };
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

function readCall(
  { words, isCertain }: ShellCommand,
  commands: readonly ShellCommand[],
  env: NodeJS.ProcessEnv,
) {
  const start = words.findIndex((word) => !isAssignment(word));
  const own = { ...env, ...Object.fromEntries(words.slice(0, start).map(splitAssignment)) };
  const called = words.slice(start);
  const args = called.slice(called.findIndex((word) => commandName.test(word)) + 1);
  const option = optionOf(args, '--root');
  const cwd = folderOf(commands, own.HOME ?? '/');
  const named = option ?? own.RUNNER_ROOT ?? null;
  return {
    words: called,
    isCertain,
    call: callOf(args),
    root: rootOf(option ?? undefined, own.RUNNER_ROOT, cwd),
    namedRoot: named === null ? null : resolve(cwd, named),
    env: own,
  };
}

function isAssignment(word: string): boolean {
  return /^[A-Za-z_]\w*=/.test(word);
}

function splitAssignment(word: string): readonly [string, string] {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}

function optionOf(args: readonly string[], name: string): string | null {
  const index = args.indexOf(name);
  const joined = args.find((arg) => arg.startsWith(`${name}=`));
  return (index === -1 ? joined?.slice(name.length + 1) : args[index + 1]) ?? null;
}

/** The first word that is neither an option nor the value of one. */
function callOf(args: readonly string[]): string | null {
  const isValue = (index: number): boolean =>
    ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.find((arg, index) => !arg.startsWith('-') && !isValue(index)) ?? null;
}

/** Where a `cd` leads that stands in the line. */
function folderOf(commands: readonly ShellCommand[], home: string): string {
  const cd = commands.find(({ words }) => words[0] === 'cd');
  return resolve(home, cd?.words[1] ?? '.');
}

function rootOf(
  option: string | undefined,
  variable: string | undefined,
  cwd: string,
): string | null {
  try {
    return findRoot({ option, variable, cwd });
  } catch {
    return null;
  }
}
