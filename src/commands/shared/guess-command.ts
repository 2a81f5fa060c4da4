import { CommanderError } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { nearestName } from '../../base/suggest.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { findRoot } from '../../place/root.ts';
import { jobVerbs } from '../jobs/job-verbs.ts';
import type { CommandContext } from './context.ts';

interface CommandLine {
  readonly args: readonly string[];
  readonly commands: readonly string[];
}

/**
 * A first word that is no command is taken for a tier's name: the complaint names the command that was
 * meant.
 *
 * @returns the error that is to be told, mostly as it was
 */
export function guessCommand(
  error: unknown,
  { args, commands }: CommandLine,
  context: Pick<CommandContext, 'cwd' | 'env'>,
): unknown {
  const words = wordsOf(args);
  const meant = guessWords(words, commands);
  if (error instanceof UsageError) return nameCommand(error, meant);
  if (meant === null) return error;
  if (!isOfWords(error, words, args) || isTier(words[0], args, context)) return error;
  return new UsageError(
    `There is no command ${JSON.stringify(words[0])}; did you mean \`runner ${meant}\`?`,
  );
}

/** What is neither an option nor the value of one. */
function wordsOf(args: readonly string[]): string[] {
  const isValue = (index: number) => ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.filter((arg, index) => !arg.startsWith('-') && !isValue(index));
}

/** `bury 5` → `job 5 bury`; `reprot` → `report`; `hourly/clean` → `run hourly/clean`; null: nothing is near. */
function guessWords(words: readonly string[], commands: readonly string[]): string | null {
  const [first = '', second = ''] = words;
  const id = words.find((word) => /^\d+$/.test(word));
  const verb = nearestName(first === id ? second : first, jobVerbs);
  if (verb !== null && id !== undefined) return `job ${id} ${verb}`;
  if (first.includes('/')) return `run ${first}`;
  return nearestName(first, commands) ?? (verb === null ? null : `job <id> ${verb}`);
}

function nameCommand(error: UsageError, meant: string | null): UsageError {
  if (!error.message.startsWith('There is no tier')) return error;
  const isGuess = error.message.endsWith('?');
  if (meant === null) {
    const hint = '; `runner --help` lists the commands.';
    return isGuess ? error : new UsageError(error.message + hint);
  }
  const start = isGuess ? `${error.message.slice(0, -1)}, or` : `${error.message}; did you mean`;
  return new UsageError(`${start} \`runner ${meant}\`?`);
}

/** A command's own words and options are too many for a tier. What follows an option may be its value. */
function isOfWords(error: unknown, words: readonly string[], args: readonly string[]): boolean {
  if (!(error instanceof CommanderError)) return false;
  const isFirst = words[0] === args[0];
  return (
    error.code === 'commander.excessArguments' ||
    (error.code === 'commander.unknownOption' && isFirst)
  );
}

function isTier(
  word: string | undefined,
  args: readonly string[],
  { cwd, env }: Pick<CommandContext, 'cwd' | 'env'>,
): boolean {
  const index = args.indexOf('--root');
  const option = index === -1 ? undefined : args[index + 1];
  try {
    const root = findRoot({ option, variable: env.RUNNER_ROOT, cwd });
    return word !== undefined && tierNames(root).includes(word);
  } catch {
    // Without a root there are no tiers.
    return false;
  }
}
