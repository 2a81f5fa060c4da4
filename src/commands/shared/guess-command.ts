import { CommanderError } from 'commander';
import type { NoSuchTier } from '../../discovery/jobs-folder.ts';
import { commandNames } from '../../system/base/command-names.ts';
import { UsageError } from '../../system/base/errors.ts';
import { shellWord } from '../../system/base/values.ts';
import { findRoot } from '../../system/place/root.ts';
import type { CommandContext } from './context.ts';

interface TypedLine {
  readonly args: readonly string[];
  readonly context: Pick<CommandContext, 'cwd' | 'env'>;
}

/**
 * A first word that is no command is taken for a tier's name: the complaint names the command that was
 * meant.
 *
 * @returns the error that is to be told, mostly as it was
 */
export async function guessCommand(error: unknown, line: TypedLine): Promise<unknown> {
  const { args } = line;
  const words = typedWords(args);
  const meant = await guessWords(words, line);
  const { NoSuchTier } = await import('../../discovery/jobs-folder.ts');
  if (error instanceof NoSuchTier) return nameCommand(error, meant);
  if (error instanceof UsageError) return error;
  if (meant === null) return error;
  if (!isOfWords(error, words, args) || (await isTier(words[0], line))) return error;
  const guess = `did you mean \`npx folder-runner ${meant}\`?`;
  const note = meant.startsWith('pause') ? ` ${HOW_TO_END}` : '';
  return new UsageError(`There is no command ${JSON.stringify(words[0])}; ${guess}${note}`);
}

/** No command ends a run of a script. */
const HOW_TO_END = 'What is running goes on: `kill <pid>` ends it, and `npx folder-runner status` shows its pid.';

/** The words that are neither options nor values of options. */
export function typedWords(args: readonly string[]): string[] {
  const isValue = (index: number) => ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.filter((arg, index) => !arg.startsWith('-') && !isValue(index));
}

/** The names that other programs have for commands of this one. */
const synonyms: Readonly<Record<string, string>> = {
  abort: 'pause <script>',
  create: 'new <tier>/<name>',
  crontab: 'cron',
  delete: 'disable <script>',
  edit: 'list',
  exec: 'run <script>',
  execute: 'run <script>',
  history: 'report',
  info: 'status',
  install: 'cron --install',
  kill: 'pause <script>',
  log: 'tail <script>',
  logs: 'tail <script>',
  ls: 'list',
  move: 'cron --install',
  ps: 'status',
  remove: 'disable <script>',
  rerun: 'run <script>',
  restart: 'run <script>',
  schedule: 'cron',
  start: 'resume',
  stop: 'pause <script>',
  terminate: 'pause <script>',
  test: 'run <script>',
  trigger: 'run <script>',
  version: '--version',
};

/** `bury 5` → `job 5 bury`; `reprot` → `report`; `clean` → `run hourly/clean`; null: nothing is near. */
export async function guessWords(words: readonly string[], line: TypedLine): Promise<string | null> {
  const { nearestName } = await import('../../system/base/suggest.ts');
  const { jobVerbs } = await import('../jobs/job.ts');
  const [first = '', second = ''] = words;
  const id = words.find((word) => /^\d+$/.test(word));
  const verb = first === id ? second : first;
  const meant = nearestName(verb, jobVerbs);
  if (meant !== null && id !== undefined) return `job ${id} ${meant}`;
  const own = await guessScript(first, line);
  if (own !== null) return own;
  const other = second === '' ? null : await guessScript(second, line);
  if (other !== null && ['retry', 'start'].includes(first)) return other;
  if (first === 'start' && second !== '') return second;
  if (Object.hasOwn(synonyms, first)) return fillIn(synonyms[first] as string, second, other);
  // Without a job's number, a word that is only near to a verb is rather near to a tier.
  return nearestName(first, [...commandNames, 'help']) ?? (meant === verb ? `job <id> ${verb}` : null);
}

/** `tail <script>` → `tail hourly/clean`; of anything else than a script, `pause` takes the name as well. */
function fillIn(meant: string, second: string, run: string | null): string {
  if (run?.startsWith('run ')) return meant.replace('<script>', run.slice('run '.length));
  if (!meant.startsWith('pause')) return meant;
  return second === '' ? 'pause' : `pause ${shellWord(second)}`;
}

/** Null: no script is called so, nor has the word the form of a script's name. */
async function guessScript(word: string, line: TypedLine): Promise<string | null> {
  const { scriptsCalled } = await import('../../discovery/find-script.ts');
  const { tierMeant } = await import('../../discovery/jobs-folder.ts');
  const root = rootOf(line);
  if (root !== null && tierMeant(root, word) !== null) return null;
  const [name = null] = root === null ? [] : scriptsCalled(word, { root, cwd: line.context.cwd });
  if (name !== null) return name.startsWith('queue/') ? `add ${shellWord(name.slice(6))}` : `run ${shellWord(name)}`;
  return word.includes('/') ? `run ${shellWord(word)}` : null;
}

function nameCommand(error: NoSuchTier, meant: string | null): UsageError {
  const { begun, asks } = error;
  if (meant !== null)
    return new UsageError(`${begun}${asks ? ', or' : '; did you mean'} \`npx folder-runner ${meant}\`?`);
  return asks ? error : new UsageError(`${begun}; \`npx folder-runner --help\` lists the commands.`);
}

/** A command's own words and options are too many for a tier. What follows an option may be its value. */
function isOfWords(error: unknown, words: readonly string[], args: readonly string[]): boolean {
  if (!(error instanceof CommanderError)) return false;
  const isFirst = words[0] === args[0];
  return error.code === 'commander.excessArguments' || (error.code === 'commander.unknownOption' && isFirst);
}

export async function isTier(word: string | undefined, line: TypedLine): Promise<boolean> {
  const { tierNames } = await import('../../discovery/jobs-folder.ts');
  const root = rootOf(line);
  return root !== null && word !== undefined && tierNames(root).includes(word);
}

/** Null: without a root there are no tiers. */
function rootOf({ args, context: { cwd, env } }: TypedLine): string | null {
  const index = args.indexOf('--root');
  try {
    return findRoot({ option: index === -1 ? undefined : args[index + 1], variable: env.RUNNER_ROOT, cwd });
  } catch {
    return null;
  }
}
