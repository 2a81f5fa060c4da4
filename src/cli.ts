import { writeSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import { errorCode, UsageError } from './base/errors.ts';
import { printableName } from './base/values.ts';
import type { CommandContext } from './commands/shared/context.ts';
import { QueueError } from './queue/errors.ts';
import { StoreUnavailable } from './store/failures.ts';

type LoadCommand = () => Promise<(context: CommandContext) => Command>;

/** Only the one that is asked for is loaded: start-up is the hot path. In the order of `--help`. */
const commands: Readonly<Record<string, LoadCommand>> = {
  init: async () => (await import('./commands/site/init.ts')).initCommand,
  cron: async () => (await import('./commands/site/cron.ts')).cronCommand,
  list: async () => (await import('./commands/show/list.ts')).listCommand,
  due: async () => (await import('./commands/run/run.ts')).dueCommand,
  run: async () => (await import('./commands/run/run.ts')).runCommand,
  add: async () => (await import('./commands/jobs/add.ts')).addCommand,
  work: async () => (await import('./commands/run/work.ts')).workCommand,
  jobs: async () => (await import('./commands/jobs/jobs.ts')).jobsCommand,
  job: async () => (await import('./commands/jobs/job.ts')).jobCommand,
  claim: async () => (await import('./commands/jobs/claim.ts')).claimCommand,
  kick: async () => (await import('./commands/jobs/kick.ts')).kickCommand,
  report: async () => (await import('./commands/show/report.ts')).reportCommand,
  status: async () => (await import('./commands/show/status.ts')).statusCommand,
  why: async () => (await import('./commands/show/why.ts')).whyCommand,
  doctor: async () => (await import('./commands/site/doctor.ts')).doctorCommand,
  show: async () => (await import('./commands/show/show.ts')).showCommand,
  tail: async () => (await import('./commands/show/tail.ts')).tailCommand,
  backup: async () => (await import('./commands/site/backup.ts')).backupCommand,
  pause: async () => (await import('./commands/site/pause.ts')).pauseCommand,
  resume: async () => (await import('./commands/site/pause.ts')).resumeCommand,
  repeat: async () => (await import('./commands/jobs/repeat.ts')).repeatCommand,
  import: async () => (await import('./commands/site/import.ts')).importCommand,
};

/** Runs the command line: 0 succeeded, 1 some run failed, 2 wrong use. */
export async function main(distFolder: string): Promise<void> {
  // What settings print, which are code, is no part of an answer: a program may read that.
  console.log = console.info = console.debug = console.error;
  await runCommandLine(process.argv.slice(2), createContext(distFolder));
  endSoon();
}

/** A call in a world of its caller's, which is all that it reads and writes besides files. */
export async function runCommandLine(
  args: readonly string[],
  context: CommandContext,
): Promise<void> {
  try {
    const program = await buildProgram(context, args);
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    context.setExitCode(reportError(await guessMeaning(error, args, context), context));
  }
}

/** A timer or a connection of the settings would keep the process for ever, and each call's of cron. */
function endSoon(): void {
  const isWritten = () => process.stdout.writableLength + process.stderr.writableLength === 0;
  setTimeout(() => (isWritten() ? process.exit() : endSoon()), END_MS).unref();
}

/** Nothing of the runner's own is left by then. */
const END_MS = 100;

function createContext(distFolder: string): CommandContext {
  const context: CommandContext = {
    cwd: currentFolder(),
    env: process.env,
    // Not before they are used: a pass under cron writes nothing, and each takes 2 ms to set up.
    get stdout() {
      return withHandler(process.stdout, endQuietlyWithoutReader);
    },
    get stderr() {
      return withHandler(process.stderr, goOnWithoutReader);
    },
    now: Date.now,
    distFolder,
    version: packageJson.version,
    setExitCode: (code) => {
      process.exitCode = code;
    },
    findWrongUse: (root, args) => findWrongUse({ ...context, cwd: root }, args),
  };
  return context;
}

/** A folder that was removed under its shell, by a deploy perhaps, has the name that it had there. */
function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    return process.env.PWD ?? '/';
  }
}

async function buildProgram(context: CommandContext, args: readonly string[]): Promise<Command> {
  // Wrong use is told in one place, as one sentence.
  const output = {
    writeOut: (text: string) => context.stdout.write(text),
    outputError: () => {},
  };
  const program = new Command('runner')
    .description('Runs the scripts of a folder and keeps a log of every run.')
    .argument('[tier]', 'run every script of jobs/<tier>, as cron does')
    .option(
      '--root <folder>',
      'the folder that contains jobs/ (default: RUNNER_ROOT, else the nearest one upward)',
    )
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText('after', examples)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput(output)
    .action((tier: string | undefined) => runTier(context, program, tier));
  const chosen = chooseCommands(args);
  if (chosen.length !== 1) {
    program.option(
      '--budget <duration>',
      'total time for this call; scripts that would exceed it wait for the next call',
    );
  }
  for (const name of chosen) {
    const create = await (commands[name] as LoadCommand)();
    const command = create(context)
      .exitOverride()
      .configureOutput(output)
      .helpOption('-h, --help', 'print this help')
      .configureHelp({ showGlobalOptions: true });
    program.addCommand(command);
  }
  return program;
}

/** Reads arguments as a call does, up to where it would begin to do something. */
async function findWrongUse(
  context: CommandContext,
  args: readonly string[],
): Promise<string | null> {
  const program = await buildProgram(context, args);
  for (const each of [program, ...program.commands]) each.configureOutput({ writeOut: () => {} });
  program.hook('preAction', async (_, command) => {
    const { checkArguments } = await import('./commands/shared/work-options.ts');
    await checkArguments(context.cwd, command);
    throw new CommanderError(0, 'runner.right', 'Nothing is wrong.');
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return null;
  } catch (error) {
    return describeWrongUse(await guessMeaning(error, args, context));
  }
}

function describeWrongUse(error: unknown): string | null {
  if (error instanceof UsageError) return error.message;
  if (!(error instanceof CommanderError)) throw error;
  return error.exitCode === 0 ? null : sentenceOf(error);
}

/** The command that is named; all of them for the help; none for a tier. */
function chooseCommands(args: readonly string[]): string[] {
  const isFolder = (index: number): boolean => args[index - 1] === '--root';
  const isCommand = (arg: string, index: number): boolean =>
    Object.hasOwn(commands, arg) && !isFolder(index);
  const named = args.filter(isCommand).slice(0, 1);
  const wantsAll = args.length === 0 || args.some((arg) => ['help', '-h', '--help'].includes(arg));
  return named.length > 0 || !wantsAll ? named : Object.keys(commands);
}

async function runTier(
  context: CommandContext,
  program: Command,
  tier: string | undefined,
): Promise<void> {
  if (tier === undefined && program.opts().budget !== undefined) {
    throw new UsageError('--budget needs a tier, such as `runner hourly --budget 5m`, or `due`.');
  }
  if (tier === undefined) program.help();
  const { runTierCommand } = await import('./commands/run/run-tier.ts');
  await runTierCommand(context, tier as string, program.opts());
}

/** Where no command is named, a word may be a command's name that was written wrong. */
async function guessMeaning(
  error: unknown,
  args: readonly string[],
  context: CommandContext,
): Promise<unknown> {
  const isWrongUse = error instanceof UsageError || error instanceof CommanderError;
  if (!isWrongUse || chooseCommands(args).length > 0) return error;
  const { guessCommand } = await import('./commands/shared/guess-command.ts');
  return guessCommand(error, { args, commands: Object.keys(commands) }, context);
}

/** Says what is wrong in a sentence; only a defect of the runner itself shows its stack. */
function reportError(error: unknown, { stderr }: CommandContext): number {
  const { message, exitCode } = describeError(error);
  if (message !== null) stderr.write(`runner: ${message}\n`);
  return exitCode;
}

interface Complaint {
  /** Null: there is nothing to say. */
  readonly message: string | null;
  readonly exitCode: number;
}

function describeError(error: unknown): Complaint {
  if (error instanceof CommanderError) return describeCommanderError(error);
  if (error instanceof UsageError) return { message: error.message, exitCode: 2 };
  if (error instanceof QueueError) return describeQueueError(error);
  if (error instanceof StoreUnavailable || isSystemError(error)) {
    return { message: error.message, exitCode: 1 };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { message, exitCode: 70 };
}

/** It may quote names and data, which come from anywhere; wrong settings are a line each. */
function describeQueueError({ message, code, cause }: QueueError): Complaint {
  if (cause instanceof UsageError) return { message: cause.message, exitCode: 2 };
  return { message: printableName(message), exitCode: code === 'invalid' ? 2 : 1 };
}

function describeCommanderError(error: CommanderError): Complaint {
  if (error.exitCode === 0) return { message: null, exitCode: 0 };
  // The help, printed for want of a command of that name, says enough.
  if (error.code === 'commander.help') return { message: null, exitCode: 2 };
  return { message: sentenceOf(error), exitCode: 2 };
}

function sentenceOf({ message }: CommanderError): string {
  const sentence = message.replace(/^error: /, '').replace(/\n\((Did.*)\)$/, '; $1');
  return sentence.replace('; Did', '; did');
}

/** Of the operating system or of SQLite: the disk, the rights, the lock; not a defect. */
function isSystemError(error: unknown): error is Error {
  const code = errorCode(error);
  return /^(E[A-Z0-9]+|SQLITE_\w+)$/.test(code) && !code.startsWith('ERR_');
}

type ErrorHandler = (error: NodeJS.ErrnoException) => void;

function withHandler(stream: NodeJS.WriteStream, handle: ErrorHandler): NodeJS.WriteStream {
  return stream.listenerCount('error', handle) === 0 ? stream.on('error', handle) : stream;
}

/** `runner report | head`: the reader has what it wanted. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0);
  goOnWithoutReader(error);
}

/** EIO: the terminal was closed; SIGHUP has said so, and what runs is still to be ended and recorded. */
function goOnWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || error.code === 'EIO') return;
  if (!isSystemError(error)) throw error;
  // A full disk: what was done is done, and cannot be told.
  writeSync(2, `runner: its output could not be written: ${error.message}\n`);
  process.exit(1);
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
