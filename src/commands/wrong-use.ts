import { type Command, CommanderError, type Option } from 'commander';
import { findTier } from '../discovery/discover.ts';
import { findScriptToRun, scriptsCalled } from '../discovery/find-script.ts';
import { NoSuchTier, tierMeant } from '../discovery/jobs-folder.ts';
import { readPatterns } from '../queue/add/values.ts';
import { defaultSettings } from '../settings/settings.ts';
import { jobStates, outcomes } from '../store/words.ts';
import { type CommandName, commandNames } from '../system/base/command-names.ts';
import { UsageError } from '../system/base/errors.ts';
import { nearestName } from '../system/base/suggest.ts';
import { printableLine } from '../system/base/text.ts';
import { shellWord } from '../system/base/values.ts';
import {
  buildProgram,
  type CommandLine,
  chooseCommands,
  isTier,
  rootOfLine,
  type TypedLine,
  typedWords,
  UnknownTopic,
  WrongArguments,
} from './program.ts';
import { readGiven } from './shared/command.ts';

export interface Complaint {
  /** Null: there is nothing to say. */
  readonly message: string | null;
  readonly exitCode: number;
}

/** Reads arguments as a call does, up to where it would begin to do something. */
export async function findWrongUse(line: CommandLine): Promise<string | null> {
  const program = buildProgram(line);
  for (const each of [program, ...program.commands]) each.configureOutput({ writeOut: () => {} });
  program.hook('preAction', async (_, command) => {
    await checkArguments(line.context.cwd, command);
    throw new CommanderError(0, 'runner.right', 'Nothing is wrong.');
  });
  try {
    await program.parseAsync(line.args, { from: 'user' });
    return null;
  } catch (error) {
    const meant = await guessMeaning(error, line);
    if (meant instanceof UsageError) return meant.message;
    if (!(meant instanceof CommanderError)) throw meant;
    return meant.exitCode === 0 ? null : sentenceOf(meant, line);
  }
}

/**
 * Looks at what the parser leaves to the commands that cron may call: names, and the values of options.
 *
 * @param command parsed; the one without a parent is `runner <tier>`
 * @throws {UsageError} as the command itself would
 */
async function checkArguments(root: string, command: Command): Promise<void> {
  readGiven(command);
  const place = { root, settings: defaultSettings };
  const [name = ''] = command.args;
  if (command.parent === null) await findTier(place, name);
  if (command.name() === 'run') await findScriptToRun(place, name);
  if (command.name() === 'work' && command.args.length > 0) readPatterns(command.args);
}

/** If no command is named, a word may be a misspelled command. */
async function guessMeaning(error: unknown, line: CommandLine): Promise<unknown> {
  const isWrongUse = error instanceof UsageError || error instanceof CommanderError;
  if (error instanceof UnknownTopic) return await describeTopic(error, line);
  if (!isWrongUse || chooseCommands(line).length > 0) return error;
  return await guessCommand(error, line);
}

async function describeTopic({ message, topic, isTier }: UnknownTopic, line: CommandLine): Promise<UsageError> {
  const all = '`npx folder-runner --help` lists the commands.';
  if (isTier) {
    const shown = JSON.stringify(printableLine(topic));
    return new UsageError(
      `${shown} is a tier, not a command: \`npx folder-runner ${shellWord(topic)}\` runs it; ${all}`,
    );
  }
  const [meant] = (await guessWords([topic], line))?.split(' ') ?? [];
  const cure = meant === undefined ? all : `did you mean \`npx folder-runner help ${meant}\`?`;
  return new UsageError(`${message.slice(0, -1)}; ${cure}`);
}

/** Describes what is wrong with the arguments, by the error that they have caused. */
export async function describeWrongUse(error: unknown, line: CommandLine): Promise<Complaint> {
  const meant = await guessMeaning(error, line);
  const [command] = chooseCommands(line);
  // The exit code 2 of a monitoring plugin would report the checked site as critical.
  const exitCode = command === 'check' ? 3 : 2;
  if (meant instanceof CommanderError) return describeCommanderError(meant, exitCode, line);
  return { message: (meant as Error).message, exitCode };
}

function describeCommanderError(error: CommanderError, exitCode: number, line: CommandLine): Complaint {
  if (error.exitCode === 0) return { message: null, exitCode: 0 };
  // The help, printed for want of a command of that name, says enough.
  if (error.code === 'commander.help') return { message: null, exitCode };
  return { message: sentenceOf(error, line), exitCode };
}

/** Rebuilds each error of the library from the command, because its own messages are in English only. */
const sentences: Readonly<Record<string, (found: WrongArguments, line: CommandLine, help: string) => string>> = {
  'commander.missingArgument': ({ command }, _, help) => {
    const missing = command.registeredArguments.find(
      (each, index) => each.required && command.args[index] === undefined,
    );
    return `Missing <${missing?.name()}>; see ${help}.`;
  },
  'commander.excessArguments': ({ command }, _, help) => {
    const [most, count] = [command.registeredArguments.length, command.args.length];
    return `Too many arguments: expected ${most}, found ${count}; see ${help}.`;
  },
  // A value can be missing at the end alone.
  'commander.optionMissingArgument': (_, { args }, help) => `${args.at(-1)} needs a value; see ${help}.`,
  'commander.conflictingOption': ({ command }) => `${findConflict(command).join(' and ')} cannot be combined.`,
  'commander.unknownOption': describeUnknownOption,
  'commander.unknownCommand': ({ command: { args, commands } }, _, help) => {
    const [word = ''] = args;
    const meant = nearestName(
      word,
      commands.map((each) => each.name()),
    );
    return `There is no command ${JSON.stringify(word)}; ${meant === null ? `see ${help}.` : `did you mean ${meant}?`}`;
  },
};

function sentenceOf(error: CommanderError, line: CommandLine): string {
  const help = `\`${['npx folder-runner', commandIn(line)].filter(Boolean).join(' ')} --help\``;
  if (!(error instanceof WrongArguments)) return error.message;
  return sentences[error.code]?.(error, line, help) ?? error.message;
}

/** Null: none is named, or the help of all is asked for. */
function commandIn(line: CommandLine): CommandName | null {
  const [first = null, ...others] = chooseCommands(line);
  return others.length === 0 ? first : null;
}

/** The option that forbids another one which is given, and that other one. */
function findConflict(command: Command): string[] {
  const given = command.options.filter((option) => {
    const key = option.attributeName();
    return command.getOptionValue(key) !== undefined && command.getOptionValueSource(key) !== 'default';
  });
  for (const option of given) {
    const { conflictsWith } = option as Option & { readonly conflictsWith: readonly string[] };
    const other = given.find((each) => conflictsWith.includes(each.attributeName()));
    if (other !== undefined) return [option, other].map(({ long, flags }) => long ?? flags);
  }
  return [];
}

function describeUnknownOption({ command }: WrongArguments, line: CommandLine, help: string): string {
  const [option = ''] = command.parseOptions(command.args).unknown;
  const known = [command, command.parent].flatMap((each) => each?.createHelp().visibleOptions(each) ?? []);
  const meant = guessOption(option, known.flatMap(({ long }) => long ?? []).toSorted(), commandIn(line));
  const cure = meant === null ? `${help} lists the options.` : `did you mean --${meant}?`;
  const ofScript = command.name() === 'run' ? ' Options for the script come after `--`.' : '';
  return `Unknown option ${option}; ${cure}${ofScript}`;
}

/**
 * The option that the user may have meant by an unknown one, without its dashes.
 *
 * @param known the options of the command
 */
function guessOption(option: string, known: readonly string[], command: CommandName | null): string | null {
  const word = withoutDashes(option);
  return guessFilter(word, command) ?? (option.startsWith('--') ? nearestName(word, known.map(withoutDashes)) : null);
}

/** `report --failed`: it is the value of an option. */
function guessFilter(word: string, command: CommandName | null): string | null {
  if (command === 'report' && outcomes.some((outcome) => outcome === word)) return `outcome ${word}`;
  return command === 'jobs' && jobStates.some((state) => state === word) ? `state ${word}` : null;
}

function withoutDashes(option: string): string {
  return option.replace(/^-+/, '');
}

/**
 * A first word that is no command is taken for a tier. Names the command that was probably meant.
 *
 * @returns the error to report, mostly the same one
 */
async function guessCommand(error: unknown, line: TypedLine): Promise<unknown> {
  const { args } = line;
  const words = typedWords(args);
  const meant = await guessWords(words, line);
  if (error instanceof NoSuchTier) return nameCommand(error, meant);
  if (error instanceof UsageError) return error;
  if (meant === null) return error;
  if (!isOfWords(error, words, args) || isTier(words[0], line)) return error;
  return new UsageError(
    `There is no command ${JSON.stringify(words[0])}; did you mean \`npx folder-runner ${meant}\`?`,
  );
}

/** The names that other programs have for commands of this one. */
const synonyms: Readonly<Record<string, string>> = {
  abort: 'stop <script>',
  create: 'new <tier>/<name>',
  crontab: 'cron',
  delete: 'disable <script>',
  edit: 'list',
  exec: 'run <script>',
  execute: 'run <script>',
  history: 'report',
  info: 'status',
  install: 'cron --install',
  kill: 'stop <script>',
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
  terminate: 'stop <script>',
  test: 'run <script>',
  trigger: 'run <script>',
  version: '--version',
};

/** `bury 5` → `job 5 bury`; `reprot` → `report`; `clean` → `run hourly/clean`; null: nothing is near. */
async function guessWords(words: readonly string[], line: TypedLine): Promise<string | null> {
  const { verbNames } = await import('../queue/settle/verbs.ts');
  const [first = '', second = ''] = words;
  const id = words.find((word) => /^\d+$/.test(word));
  const verb = first === id ? second : first;
  const meant = nearestName(verb, verbNames);
  if (meant !== null && id !== undefined) return `job ${id} ${meant}`;
  const own = guessScript(first, line);
  if (own !== null) return own;
  const other = second === '' ? null : guessScript(second, line);
  if (other !== null && ['retry', 'start'].includes(first)) return other;
  if (first === 'start' && second !== '') return second;
  if (Object.hasOwn(synonyms, first)) return fillIn(synonyms[first] as string, second, other);
  // Without a job's number, a word that is only near to a verb is rather near to a tier.
  return nearestName(first, [...commandNames, 'help']) ?? (meant === verb ? `job <id> ${verb}` : null);
}

/** `tail <script>` → `tail hourly/clean`; `stop` takes the number of a run as well. */
function fillIn(meant: string, second: string, run: string | null): string {
  if (run?.startsWith('run ')) return meant.replace('<script>', run.slice('run '.length));
  return meant.startsWith('stop') && second !== '' ? `stop ${shellWord(second)}` : meant;
}

/** Null: no script is called so, nor has the word the form of a script's name. */
function guessScript(word: string, line: TypedLine): string | null {
  const root = rootOfLine(line);
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

/**
 * Whether the words are those of another command, which are too many for a tier. A word after an option may be its
 * value.
 */
function isOfWords(error: unknown, words: readonly string[], args: readonly string[]): boolean {
  if (!(error instanceof CommanderError)) return false;
  const isFirst = words[0] === args[0];
  return error.code === 'commander.excessArguments' || (error.code === 'commander.unknownOption' && isFirst);
}
