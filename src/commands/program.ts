import { type Argument, Command, CommanderError, type Option } from 'commander';
import { tierNames } from '../discovery/jobs-folder.ts';
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
import { enterZone } from '../system/base/zone.ts';
import { findRoot } from '../system/place/root.ts';
import { keepPackageAfter } from '../system/process/package-files.ts';
import { buildCommand, fillCommand, type GlobalOptions, isReader } from './shared/command.ts';
import { type CommandContext, enterSite } from './shared/context.ts';
import { fitHelp, programExamples } from './shared/help-text.ts';
import { commandTable, tierCall } from './table.ts';

export interface CommandLine {
  readonly args: readonly string[];
  readonly context: CommandContext;
}

/** The parts of a command line that guesses need. */
export interface TypedLine {
  readonly args: readonly string[];
  readonly context: Pick<CommandContext, 'cwd' | 'env'>;
}

/** Parses the arguments, and does what they ask for. */
export async function runProgram(line: CommandLine): Promise<void> {
  refuseUnknownTopic(line);
  const program = buildProgram(line);
  program.hook('preAction', (_, command) => enterRoot(line.context, command));
  await program.parseAsync(line.args, { from: 'user' });
}

/** A word that is no command, where the help of one is asked for. */
export class UnknownTopic extends UsageError {
  readonly topic: string;
  readonly isTier: boolean;

  constructor(topic: string, isTier: boolean) {
    super(`There is no command ${JSON.stringify(printableLine(topic))}.`);
    this.topic = topic;
    this.isTier = isTier;
  }
}

/** The library answers it with all of the help, and no word on what is wrong. */
function refuseUnknownTopic(line: CommandLine): void {
  const { args } = line;
  const words = typedWords(args);
  const isTopic = words[0] === 'help';
  const topic = isTopic ? words[1] : words[0];
  if (topic === undefined || isCommandName(topic) || !(isTopic || asksForHelp(args))) return;
  const isOfTier = isTier(topic, line);
  if (isTopic || !isOfTier) throw new UnknownTopic(topic, isOfTier);
}

/** The words that are neither options nor values of options. */
export function typedWords(args: readonly string[]): string[] {
  const isValue = (index: number) => ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.filter((arg, index) => !arg.startsWith('-') && !isValue(index));
}

export function isTier(word: string | undefined, line: TypedLine): boolean {
  const root = rootOfLine(line);
  return root !== null && word !== undefined && tierNames(root).includes(word);
}

/** Null: without a root there are no tiers. */
export function rootOfLine({ args, context }: TypedLine): string | null {
  const index = args.indexOf('--root');
  return findRootIfAny(context, index === -1 ? undefined : args[index + 1]);
}

function asksForHelp(args: readonly string[]): boolean {
  return chooseNamed(args).length === 0 && args.some((arg) => ['-h', '--help'].includes(arg));
}

/** Before a command begins with anything. The place of `init` is no root yet: it looks by itself. */
async function enterRoot(context: CommandContext, command: Command): Promise<void> {
  const { root: option, asRoot } = command.optsWithGlobals<GlobalOptions>();
  const reads = isReader(command);
  if (reads) keepPackageAfter(READING_MS, context.distFolder);
  const root = command.name() === 'init' ? null : findRootIfAny(context, option);
  if (root === null) return;
  enterSite(context, root, reads || command.name() === HIDDEN_COMMAND || asRoot === true);
  if (!timeless.includes(command.name())) await enterZoneOf(root);
}

/** Commands that only show something have ended by then, and lose nothing if an upgrade of the package ends them. */
const READING_MS = 1_000;

/** Commands that only shells call. */
const timeless = ['completion', HIDDEN_COMMAND];

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

export function buildProgram(line: CommandLine): Command {
  const { context } = line;
  // The parser prints no errors: `describeWrongUse` makes one sentence of them.
  const output = {
    writeOut: (text: string) => context.stdout.write(fitHelp(text, columnsOf(context.stdout))),
    getOutHelpWidth: () => columnsOf(context.stdout),
    outputError: () => {},
  };
  const program = new Command('runner')
    .description('Runs the scripts of a folder and keeps a log of every run.')
    .option('--root <folder>', 'the folder that contains jobs/ (default: RUNNER_ROOT, else the nearest one upward)')
    .option('--as-root', "as root, in another user's site: act with that user's rights")
    .version(context.version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpCommand(helpCommand())
    .addHelpText('after', programExamples)
    .configureOutput(output);
  const chosen = chooseCommands(line);
  const { options, ...others } = tierCall.tier;
  fillCommand(program, chosen.length === 1 ? others : { ...others, options }, context);
  throwWrongUse(program);
  addHidden(program, line);
  for (const name of chosen) {
    const command = prepare(buildCommand(name, commandTable[name], context), (each) =>
      throwWrongUse(each).configureOutput(output),
    );
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
    await complete({ context, words, program: buildProgram({ args: words.slice(0, -1), context }) });
  });
  program.addCommand(complete, { hidden: true });
}

/** Wrong use of a command, as the library has found it. */
export class WrongArguments extends CommanderError {
  readonly command: Command;

  constructor({ exitCode, code, message }: CommanderError, command: Command) {
    super(exitCode, code, message);
    this.command = command;
  }
}

/**
 * Makes the parser throw instead of ending the process. Its message about a wrong value has no separate parts, so wrong
 * choices are caught before the parser checks them.
 */
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
export function chooseCommands({ args }: CommandLine): readonly CommandName[] {
  if (args[0] === HIDDEN_COMMAND) return [];
  const named = chooseNamed(args);
  const wantsAll = typedWords(args).length === 0 || args.some((arg) => ['help', '-h', '--help'].includes(arg));
  return named.length > 0 || !wantsAll ? named : commandNames;
}

function chooseNamed(args: readonly string[]): readonly CommandName[] {
  const isFolder = (index: number): boolean => args[index - 1] === '--root';
  const words = args.filter((_, index) => !isFolder(index));
  return words.flatMap((word) => commandNames.find((name) => name === word) ?? []).slice(0, 1);
}
