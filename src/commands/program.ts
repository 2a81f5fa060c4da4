import { Command, CommanderError } from 'commander';
import { UsageError } from '../system/base/errors.ts';
import { findRoot } from '../system/place/root.ts';
import { type CommandContext, enterSite } from './shared/context.ts';

type LoadCommand = () => Promise<(context: CommandContext) => Command>;

/** By name, in the order of `--help`. */
export type Commands = Readonly<Record<string, LoadCommand>>;

export interface CommandLine {
  readonly args: readonly string[];
  readonly commands: Commands;
  readonly context: CommandContext;
}

export interface Complaint {
  /** Null: there is nothing to say. */
  readonly message: string | null;
  readonly exitCode: number;
}

/** Parses the arguments, and does what they ask for. */
export async function runProgram(line: CommandLine): Promise<void> {
  const program = await buildProgram(line);
  program.hook('preAction', (_, command) => enterRoot(line.context, command));
  await program.parseAsync(line.args, { from: 'user' });
}

/** What shows something and changes nothing. */
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
];

interface GlobalOptions {
  readonly root?: string;
  readonly asRoot?: true;
  /** Of a report: what is sent, and may be left to passes. */
  readonly mail?: true;
}

/** Before a command begins with anything. The place of `init` is no root yet: it looks by itself. */
function enterRoot(context: CommandContext, command: Command): void {
  const { root: option, asRoot, mail } = command.optsWithGlobals<GlobalOptions>();
  const root = command.name() === 'init' ? null : findRootIfAny(context, option);
  const isShown = readers.includes(command.name()) && mail !== true;
  const isReader = isShown || (command.name() === 'job' && command.args.length === 1);
  if (root !== null) enterSite(context, root, isReader || asRoot === true);
}

/** What is wrong otherwise is for the command to say. */
function findRootIfAny({ cwd, env }: Pick<CommandContext, 'cwd' | 'env'>, option: string | undefined): string | null {
  try {
    return findRoot({ option, variable: env.RUNNER_ROOT, cwd });
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}

async function buildProgram(line: CommandLine): Promise<Command> {
  const { commands, context } = line;
  // Wrong use is told in one place, as one sentence.
  const output = {
    writeOut: (text: string) => context.stdout.write(text),
    outputError: () => {},
  };
  const program = new Command('runner')
    .description('Runs the scripts of a folder and keeps a log of every run.')
    .argument('[tier]', 'run every script of jobs/<tier>, as cron does')
    .option('--root <folder>', 'the folder that contains jobs/ (default: RUNNER_ROOT, else the nearest one upward)')
    .option('--as-root', "as root, in another user's site: act with that user's rights")
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', examples)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput(output)
    .action((tier: string | undefined) => runTier(context, program, tier));
  const chosen = chooseCommands(line);
  if (chosen.length !== 1) {
    program.option(
      '--budget <duration>',
      'total time for this call; scripts that would exceed it wait for the next call',
    );
  }
  for (const name of chosen) {
    const create = await (commands[name] as LoadCommand)();
    program.addCommand(prepare(create(context), (each) => each.exitOverride().configureOutput(output)));
  }
  return program;
}

/** So that a command of commands is as its own are. */
function prepare(command: Command, set: (command: Command) => Command): Command {
  for (const each of command.commands) prepare(each, set);
  return set(command).helpOption('-h, --help', 'print this help').configureHelp({ showGlobalOptions: true });
}

/** The command that is named; all of them for the help; none for a tier. */
function chooseCommands({ args, commands }: CommandLine): string[] {
  const isFolder = (index: number): boolean => args[index - 1] === '--root';
  const isCommand = (arg: string, index: number): boolean => Object.hasOwn(commands, arg) && !isFolder(index);
  const named = args.filter(isCommand).slice(0, 1);
  const wantsAll = args.length === 0 || args.some((arg) => ['help', '-h', '--help'].includes(arg));
  return named.length > 0 || !wantsAll ? named : Object.keys(commands);
}

async function runTier(context: CommandContext, program: Command, tier: string | undefined): Promise<void> {
  if (tier === undefined && program.opts().budget !== undefined) {
    throw new UsageError('--budget needs a tier, such as `runner hourly --budget 5m`, or `due`.');
  }
  if (tier === undefined) program.help();
  const { runTierCommand } = await import('./run/run-tier.ts');
  await runTierCommand(context, tier as string, program.opts());
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
    return meant.exitCode === 0 ? null : sentenceOf(meant);
  }
}

/** Where no command is named, a word may be a command's name that was written wrong. */
async function guessMeaning(error: unknown, line: CommandLine): Promise<unknown> {
  const isWrongUse = error instanceof UsageError || error instanceof CommanderError;
  if (!isWrongUse || chooseCommands(line).length > 0) return error;

  return await guessCommand(error, line);
}

/** What is wrong with the arguments, by what running them has thrown. */
export async function describeWrongUse(error: unknown, line: CommandLine): Promise<Complaint> {
  const meant = await guessMeaning(error, line);
  const [command] = chooseCommands(line);
  // Of a monitoring plugin, 2 would say that what it looks at is in a critical state.
  const exitCode = command === 'check' ? 3 : 2;
  if (meant instanceof CommanderError) return describeCommanderError(meant, exitCode);
  return { message: (meant as Error).message, exitCode };
}

function describeCommanderError(error: CommanderError, exitCode: number): Complaint {
  if (error.exitCode === 0) return { message: null, exitCode: 0 };
  // The help, printed for want of a command of that name, says enough.
  if (error.code === 'commander.help') return { message: null, exitCode };
  return { message: sentenceOf(error), exitCode };
}

function sentenceOf({ message }: CommanderError): string {
  const sentence = message.replace(/^error: /, '').replace(/\n\((Did.*)\)$/, '; $1');
  return sentence.replace('; Did', '; did');
}

const examples = `
Examples:
  runner init                  create jobs/ with an example in each tier
  runner cron --install        let cron call the tiers
  runner hourly                run every script of jobs/hourly now
  runner add mail/welcome '{}' add a job for jobs/queue/mail/welcome.*
  runner report                what ran, how long it took, what failed
  runner help report           more about one command

Exit codes: 0 all succeeded, 1 some run failed, 2 usage error.`;

interface TypedLine extends Pick<CommandLine, 'args' | 'commands'> {
  readonly context: Pick<CommandContext, 'cwd' | 'env'>;
}

/**
 * A first word that is no command is taken for a tier's name: the complaint names the command that was
 * meant.
 *
 * @returns the error that is to be told, mostly as it was
 */
export async function guessCommand(error: unknown, { args, commands, context }: TypedLine): Promise<unknown> {
  const words = wordsOf(args);
  const meant = await guessWords(words, Object.keys(commands));
  if (error instanceof UsageError) return nameCommand(error, meant);
  if (meant === null) return error;
  if (!isOfWords(error, words, args) || (await isTier(words[0], args, context))) return error;
  return new UsageError(`There is no command ${JSON.stringify(words[0])}; did you mean \`runner ${meant}\`?`);
}

/** What is neither an option nor the value of one. */
function wordsOf(args: readonly string[]): string[] {
  const isValue = (index: number) => ['--root', '--budget'].includes(args[index - 1] ?? '');
  return args.filter((arg, index) => !arg.startsWith('-') && !isValue(index));
}

/** `bury 5` → `job 5 bury`; `reprot` → `report`; `hourly/clean` → `run hourly/clean`; null: nothing is near. */
async function guessWords(words: readonly string[], commands: readonly string[]): Promise<string | null> {
  const { nearestName } = await import('../system/base/suggest.ts');
  const { jobVerbs } = await import('./jobs/job.ts');
  const [first = '', second = ''] = words;
  const id = words.find((word) => /^\d+$/.test(word));
  const verb = first === id ? second : first;
  const meant = nearestName(verb, jobVerbs);
  if (meant !== null && id !== undefined) return `job ${id} ${meant}`;
  if (first.includes('/')) return `run ${first}`;
  // Without a job's number, a word that is only near to a verb is rather near to a tier.
  return nearestName(first, commands) ?? (meant === verb ? `job <id> ${verb}` : null);
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
  return error.code === 'commander.excessArguments' || (error.code === 'commander.unknownOption' && isFirst);
}

async function isTier(
  word: string | undefined,
  args: readonly string[],
  { cwd, env }: TypedLine['context'],
): Promise<boolean> {
  const { tierNames } = await import('../discovery/jobs-folder.ts');
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
