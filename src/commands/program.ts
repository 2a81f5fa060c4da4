import { type Argument, Command, CommanderError, type Option } from 'commander';
import { findSettingsFile, loadSettingsIfRight } from '../settings/load.ts';
import {
  type CommandName,
  commandGroups,
  commandNames,
  HIDDEN_COMMAND,
  isCommandName,
} from '../system/base/command-names.ts';
import { UsageError } from '../system/base/errors.ts';
import { printableLine } from '../system/base/text.ts';
import { shellWord } from '../system/base/values.ts';
import { enterZone } from '../system/base/zone.ts';
import { findRoot } from '../system/place/root.ts';
import { commands } from './commands.ts';
import { type CommandContext, enterSite } from './shared/context.ts';
import { asksForPlan, type DryRunOptions } from './shared/dry-run-options.ts';
import { guessCommand, guessWords, isTier, typedWords } from './shared/guess-command.ts';
import { fitHelp, programExamples } from './shared/help-text.ts';

export interface CommandLine {
  readonly args: readonly string[];
  readonly context: CommandContext;
}

export interface Complaint {
  /** Null: there is nothing to say. */
  readonly message: string | null;
  readonly exitCode: number;
}

/** Parses the arguments, and does what they ask for. */
export async function runProgram(line: CommandLine): Promise<void> {
  await refuseUnknownTopic(line);
  const program = await buildProgram(line);
  program.hook('preAction', (_, command) => enterRoot(line.context, command));
  await program.parseAsync(line.args, { from: 'user' });
}

/** The library answers it with all of the help, and no word on what is wrong. */
async function refuseUnknownTopic(line: CommandLine): Promise<void> {
  const { args } = line;
  const words = typedWords(args);
  const isTopic = words[0] === 'help';
  const topic = isTopic ? words[1] : words[0];
  if (topic === undefined || isCommandName(topic) || !(isTopic || asksForHelp(args))) return;
  const shown = JSON.stringify(printableLine(topic));
  if (await isTier(topic, line)) {
    if (!isTopic) return;
    const run = `\`npx folder-runner ${shellWord(topic)}\` runs it`;
    throw new UsageError(`${shown} is a tier, not a command: ${run}; \`npx folder-runner --help\` lists the commands.`);
  }
  const [meant] = (await guessWords([topic], line))?.split(' ') ?? [];
  const cure =
    meant === undefined
      ? '`npx folder-runner --help` lists the commands.'
      : `did you mean \`npx folder-runner help ${meant}\`?`;
  throw new UsageError(`There is no command ${shown}; ${cure}`);
}

function asksForHelp(args: readonly string[]): boolean {
  return chooseNamed(args).length === 0 && args.some((arg) => ['-h', '--help'].includes(arg));
}

/** Commands that show something and change nothing. */
const readers = [
  'list',
  'jobs',
  'report',
  'metrics',
  'status',
  'why',
  'check',
  'doctor',
  'show',
  'activity',
  'tail',
  'watch',
  'repeat',
  'incidents',
  'completion',
  'complete',
];

interface GlobalOptions {
  readonly root?: string;
  readonly asRoot?: true;
  /** Of a report: what is sent, and may be left to passes. */
  readonly mail?: true;
}

/** Before a command begins with anything. The place of `init` is no root yet: it looks by itself. */
async function enterRoot(context: CommandContext, command: Command): Promise<void> {
  const { root: option, asRoot, mail } = command.optsWithGlobals<GlobalOptions>();
  const root = command.name() === 'init' ? null : findRootIfAny(context, option);
  const isShown = readers.includes(command.name()) && mail !== true;
  const isReader = isShown || (command.name() === 'job' && command.args.length === 1);
  if (root === null) return;
  enterSite(context, root, isReader || asRoot === true);
  if (!timeless.includes(command.name())) await enterZoneOf(root);
}

/** Commands that only shells call. */
const timeless = ['completion', 'complete'];

/** The command itself reports wrong settings. */
async function enterZoneOf(root: string): Promise<void> {
  if (findSettingsFile(root) === null) return;
  enterZone((await loadSettingsIfRight(root)).timezone);
}

/** The command itself reports any other fault. */
function findRootIfAny({ cwd, env }: Pick<CommandContext, 'cwd' | 'env'>, option: string | undefined): string | null {
  try {
    return findRoot({ option, variable: env.RUNNER_ROOT, cwd });
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}

async function buildProgram(line: CommandLine): Promise<Command> {
  const { context } = line;
  // Wrong use is told in one place, as one sentence.
  const output = {
    writeOut: (text: string) => context.stdout.write(fitHelp(text, columnsOf(context.stdout))),
    getOutHelpWidth: () => columnsOf(context.stdout),
    outputError: () => {},
  };
  const program = new Command('runner')
    .description('Runs the scripts of a folder and keeps a log of every run.')
    .argument('[tier]', 'run every script of jobs/<tier>, as cron does')
    .option('--root <folder>', 'the folder that contains jobs/ (default: RUNNER_ROOT, else the nearest one upward)')
    .option('--as-root', "as root, in another user's site: act with that user's rights")
    .version(context.version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpCommand(helpCommand())
    .addHelpText('after', programExamples)
    .configureOutput(output)
    .action((tier: string | undefined) => runTier(context, program, tier));
  throwWrongUse(program);
  const chosen = chooseCommands(line);
  if (chosen.length !== 1) {
    program.option(
      '--budget <duration>',
      'total time for this call; scripts that would exceed it wait for the next call',
    );
    program.option('--dry-run', 'with a tier: show what would run, in which order and how; run nothing');
    program.option('--json', 'with --dry-run: as JSON');
  }
  addHidden(program, line);
  for (const name of chosen) {
    const create = await commands[name]();
    const command = prepare(create(context), (each) => throwWrongUse(each).configureOutput(output));
    program.addCommand(command.helpGroup(groupOf(name)));
  }
  return program;
}

function helpCommand(): Command {
  return new Command('help')
    .argument('[command]')
    .description('print the help of a command')
    .helpGroup(groupOf('completion'))
    .helpOption(false);
}

function groupOf(name: CommandName): string {
  const [group] = Object.entries(commandGroups).find(([, names]) => names.some((each) => each === name)) ?? [];
  return `${group}:`;
}

/** Into a file or a pipe, as for the narrowest usual terminal. */
function columnsOf({ columns }: { readonly columns?: number }): number {
  return Math.max(40, columns || 80);
}

/** Adds the command that only shells call. */
function addHidden(program: Command, line: CommandLine): void {
  const { context } = line;
  const complete = new Command(HIDDEN_COMMAND).argument('[words...]').action(async (words: string[]) => {
    const { complete } = await import('./shell/complete.ts');
    // The last word is still being written.
    await complete({ context, words, program: await buildProgram({ args: words.slice(0, -1), context }) });
  });
  program.addCommand(complete, { hidden: true });
}

/** Wrong use of a command, as the library has found it. */
class WrongArguments extends CommanderError {
  readonly command: Command;

  constructor({ exitCode, code, message }: CommanderError, command: Command) {
    super(exitCode, code, message);
    this.command = command;
  }
}

/** Lets nothing end the process. What the library says of a wrong value has no parts, and is said before it is asked. */
function throwWrongUse(command: Command): Command {
  for (const option of command.options) demandChoice(option, option.long ?? option.flags);
  for (const argument of command.registeredArguments) demandChoice(argument, `<${argument.name()}>`);
  return command.exitOverride((error) => {
    throw new WrongArguments(error, command);
  });
}

function demandChoice(one: Option | Argument, name: string): void {
  const { argChoices } = one;
  if (argChoices === undefined) return;
  one.argParser((word) => {
    if (argChoices.includes(word)) return word;
    throw new UsageError(`${name} must be one of ${argChoices.join(', ')}, found ${JSON.stringify(word)}.`);
  });
}

/** Apply the same settings to subcommands. */
function prepare(command: Command, set: (command: Command) => Command): Command {
  for (const each of command.commands) prepare(each, set);
  return set(command).helpOption('-h, --help', 'print this help').configureHelp({ showGlobalOptions: true });
}

/** The command that is named; all of them for the help; none for a tier. */
function chooseCommands({ args }: CommandLine): readonly CommandName[] {
  if (args[0] === HIDDEN_COMMAND) return [];
  const named = chooseNamed(args);
  const wantsAll = args.length === 0 || args.some((arg) => ['help', '-h', '--help'].includes(arg));
  return named.length > 0 || !wantsAll ? named : commandNames;
}

function chooseNamed(args: readonly string[]): readonly CommandName[] {
  const isFolder = (index: number): boolean => args[index - 1] === '--root';
  const words = args.filter((_, index) => !isFolder(index));
  return words.flatMap((word) => commandNames.find((name) => name === word) ?? []).slice(0, 1);
}

async function runTier(context: CommandContext, program: Command, tier: string | undefined): Promise<void> {
  if (tier === undefined) return await showHelp(context, program.opts());
  if (asksForPlan(program.opts())) {
    const { planTier } = await import('./run/dry-run.ts');
    return await planTier(context, tier, program.opts());
  }
  const { runTierCommand } = await import('./run/run-tier.ts');
  await runTierCommand(context, tier, program.opts());
}

/** @throws {UsageError} for an option that says how a tier is to be run */
async function showHelp(context: CommandContext, options: DryRunOptions & { readonly budget?: string }): Promise<void> {
  if (options.budget !== undefined) {
    throw new UsageError('--budget needs a tier, such as `npx folder-runner hourly --budget 5m`, or `due`.');
  }
  if (asksForPlan(options)) {
    throw new UsageError('--dry-run needs a tier, such as `npx folder-runner hourly --dry-run`, or `due`.');
  }
  // With all commands, whatever options stand beside it.
  (await buildProgram({ args: [], context })).help();
}

/** Reads arguments as a call does, up to where it would begin to do something. */
export async function findWrongUse(line: CommandLine): Promise<string | null> {
  const program = await buildProgram(line);
  for (const each of [program, ...program.commands]) each.configureOutput({ writeOut: () => {} });
  program.hook('preAction', async (_, command) => {
    const { checkArguments } = await import('./shared/work-options.ts');
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
    return meant.exitCode === 0 ? null : await sentenceOf(meant, line);
  }
}

/** Where no command is named, a word may be a command's name that was written wrong. */
async function guessMeaning(error: unknown, line: CommandLine): Promise<unknown> {
  const isWrongUse = error instanceof UsageError || error instanceof CommanderError;
  if (!isWrongUse || chooseCommands(line).length > 0) return error;

  return await guessCommand(error, line);
}

/** Describes what is wrong with the arguments, by the error that they have caused. */
export async function describeWrongUse(error: unknown, line: CommandLine): Promise<Complaint> {
  const meant = await guessMeaning(error, line);
  const [command] = chooseCommands(line);
  // Of a monitoring plugin, 2 would say that what it looks at is in a critical state.
  const exitCode = command === 'check' ? 3 : 2;
  if (meant instanceof CommanderError) return await describeCommanderError(meant, exitCode, line);
  return { message: (meant as Error).message, exitCode };
}

async function describeCommanderError(error: CommanderError, exitCode: number, line: CommandLine): Promise<Complaint> {
  if (error.exitCode === 0) return { message: null, exitCode: 0 };
  // The help, printed for want of a command of that name, says enough.
  if (error.code === 'commander.help') return { message: null, exitCode };
  return { message: await sentenceOf(error, line), exitCode };
}

/** What each error of the library is about, which it tells in English alone, is read off the command again. */
const sentences: Readonly<Record<string, (found: WrongArguments, line: CommandLine, help: string) => Sentence>> = {
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
  'commander.unknownCommand': async ({ command: { args, commands } }, _, help) => {
    const { nearestName } = await import('../system/base/suggest.ts');
    const [word = ''] = args;
    const meant = nearestName(
      word,
      commands.map((each) => each.name()),
    );
    return `There is no command ${JSON.stringify(word)}; ${meant === null ? `see ${help}.` : `did you mean ${meant}?`}`;
  },
};

type Sentence = string | Promise<string>;

async function sentenceOf(error: CommanderError, line: CommandLine): Promise<string> {
  const help = `\`${['npx folder-runner', commandIn(line)].filter(Boolean).join(' ')} --help\``;
  if (!(error instanceof WrongArguments)) return error.message;
  return (await sentences[error.code]?.(error, line, help)) ?? error.message;
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

async function describeUnknownOption({ command }: WrongArguments, line: CommandLine, help: string): Promise<string> {
  const { guessOption } = await import('./shared/unknown-option.ts');
  const [option = ''] = command.parseOptions(command.args).unknown;
  const known = [command, command.parent].flatMap((each) => each?.createHelp().visibleOptions(each) ?? []);
  const meant = guessOption(option, known.flatMap(({ long }) => long ?? []).toSorted(), commandIn(line));
  const cure = meant === null ? `${help} lists the options.` : `did you mean --${meant}?`;
  const ofScript = command.name() === 'run' ? ' Options for the script come after `--`.' : '';
  return `Unknown option ${option}; ${cure}${ofScript}`;
}
