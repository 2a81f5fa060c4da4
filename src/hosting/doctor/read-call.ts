import { resolve } from 'node:path';
import { findRoot } from '../../config/root.ts';
import type { ShellCommand } from './shell-commands.ts';

/** The part of a crontab line that calls this package's command. */
export interface CrontabCall {
  /** The words that call it, without redirections. */
  readonly words: readonly string[];
  /** Those of them that the command gets. */
  readonly args: readonly string[];
  /** False where the shell would make other words of them. */
  readonly isCertain: boolean;
  /** What is done before may keep it from being called. */
  readonly isSifted: boolean;
  /** What stands after the command's own path and options: `hourly`, `due`, `run`. */
  readonly call: string | null;
  /** Null where it finds none by itself. */
  readonly root: string | null;
  /** The root that it names, and that may not be there. */
  readonly namedRoot: string | null;
  /** What cron runs it with: its own few variables, and those that the crontab sets above it. */
  readonly env: NodeJS.ProcessEnv;
}

const commandName = /(?:^|\/)(?:bin\.cjs|runner|folder-runner)$/;

/** Of the commands of a line, the one that calls this package's; null: none does. */
export function readCall(
  commands: readonly ShellCommand[],
  env: NodeJS.ProcessEnv,
): CrontabCall | null {
  const command = commands.find(isCall);
  if (command === undefined) return null;
  const before = commands.slice(0, commands.indexOf(command));
  return {
    isCertain: command.isCertain,
    isSifted: before.some(({ words }) => words[0] !== 'cd'),
    ...readWords(command.words, folderOf(commands, env), env),
  };
}

/** A folder may have the command's name, and be looked for before. */
function isCall({ words }: ShellCommand): boolean {
  const isOther = ['cd', '[', 'test'].includes(words[0] ?? '');
  return !isOther && words.some((word) => commandName.test(word));
}

/** @param cwd where they are called */
function readWords(words: readonly string[], cwd: string, env: NodeJS.ProcessEnv) {
  const start = words.findIndex((word) => !isAssignment(word));
  const own = { ...env, ...Object.fromEntries(words.slice(0, start).map(splitAssignment)) };
  const called = words.slice(start);
  const args = called.slice(called.findIndex((word) => commandName.test(word)) + 1);
  const option = optionOf(args, '--root');
  const named = option ?? own.RUNNER_ROOT ?? null;
  return {
    words: called,
    args,
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
function folderOf(commands: readonly ShellCommand[], { HOME }: NodeJS.ProcessEnv): string {
  const cd = commands.find(({ words }) => words[0] === 'cd');
  return resolve(HOME ?? '/', cd?.words[1] ?? '.');
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
