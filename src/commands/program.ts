import { type Argument, Command, CommanderError, type Option } from 'commander';
import { tierNames } from '../discovery/jobs-folder.ts';
import { widthOf } from '../report/terminal/table.ts';
import { keepRulesAt } from '../schedule/repeat/place.ts';
import { loadSettingsIfRight } from '../settings/load.ts';
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
  if (!timeless.includes(command.name())) await enterSettingsOf(root);
}

/** Commands that only show something have ended by then, and lose nothing if an upgrade of the package ends them. */
const READING_MS = 1_000;

/** Commands that only shells call. */
const timeless = ['completion', HIDDEN_COMMAND];

/** The command itself reports wrong settings. */
async function enterSettingsOf(root: string): Promise<void> {
  const { allowUnsafe, timezone } = await loadSettingsIfRight(root);
  keepRulesAt({ root, allowUnsafe });
  enterZone(timezone);
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
    const { complete } = await import('./site/completion.ts');
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

/** Stands below the commands of `runner --help`. */
const programExamples = `
Examples:
  runner init                  create jobs/ with an example in each tier
  runner cron --install        let cron call the tiers
  runner hourly                run every script of jobs/hourly now
  runner add mail/welcome '{}' add a job for jobs/queue/mail/welcome.*
  runner report                what ran, how long it took, what failed
  runner help report           more about one command

Exit codes: 0: all runs succeeded; 1: at least one failed; 2: wrong usage.`;

/** Beside a column of fewer characters, a text begins below what it explains. */
const FEWEST_COLUMNS = 24;

/** A text that is continued at one column; what stands before the column is never broken. */
interface Paragraph {
  readonly start: string;
  readonly column: number;
  readonly text: string;
}

/** Text of a help: prose and the explanations of examples are wrapped at words, what is to be copied stays whole. */
function fitHelp(text: string, columns: number): string {
  return readParagraphs(text)
    .flatMap((paragraph) => fitParagraph(paragraph, columns))
    .join('\n');
}

function readParagraphs(text: string): Paragraph[] {
  const paragraphs: Paragraph[] = [];
  for (const line of text.split('\n')) {
    const paragraph = readParagraph(line);
    const last = paragraphs.at(-1);
    if (last !== undefined && isContinued(last, paragraph)) {
      paragraphs[paragraphs.length - 1] = { ...last, text: `${last.text} ${paragraph.text}` };
    } else paragraphs.push(paragraph);
  }
  return paragraphs;
}

function readParagraph(line: string): Paragraph {
  const [, start = '', text = ''] = /^( +\S.*?\s{2,}|\s*)(.*)$/.exec(line) ?? [];
  return { start, column: widthOf(start), text };
}

/** Between these columns stand examples, each of which is a line of its own. */
function isContinued(last: Paragraph, { start, column, text }: Paragraph): boolean {
  if (last.text === '' || text === '' || column !== last.column || start.trim() !== '') return false;
  return (column === 0 || column >= FEWEST_COLUMNS) && !text.startsWith('Exit codes:');
}

function fitParagraph({ start, column, text }: Paragraph, columns: number): string[] {
  if (column + widthOf(text) <= columns) return [start + text];
  if (start === '' || start.trim() !== '') return hang(start, column, text, columns);
  // An example without an explanation.
  return column < FEWEST_COLUMNS ? [start + text] : hang(start, column, text, columns);
}

function hang(start: string, column: number, text: string, columns: number): string[] {
  if (columns - column < FEWEST_COLUMNS) {
    const below = ' '.repeat(6);
    const lines = wrapWords(text, columns - below.length).map((line) => below + line);
    return start.trim() === '' ? lines : [start.trimEnd(), ...lines];
  }
  return wrapWords(text, columns - column).map((line, index) => (index === 0 ? start : ' '.repeat(column)) + line);
}

/** A complaint on a terminal: a command in it is on one line, where it fits into one. */
export function fitMessage(text: string, columns: number): string {
  return text
    .split('\n')
    .flatMap((line) => {
      const [indent = ''] = /^\s*/.exec(line) ?? [];
      return wrapWords(line.slice(indent.length), columns - indent.length).map((each) => indent + each);
    })
    .join('\n');
}

/** A word that is wider than the screen stands as it is: broken, a path or an address could not be copied. */
function wrapWords(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of wordsOf(text, columns)) {
    const last = lines.at(-1);
    const joined = last === undefined ? word : `${last} ${word}`;
    if (last !== undefined && widthOf(joined) <= columns) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  return lines;
}

/** Text between backticks counts as one word. */
function wordsOf(text: string, columns: number): string[] {
  const words = text.match(/[^\s`]*`[^`]+`[^\s`]*|\S+/g) ?? [''];
  return words.flatMap((word) => (widthOf(word) <= columns ? [word] : word.split(' ')));
}
