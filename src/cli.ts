import { Command, CommanderError } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import type { CommandContext } from './commands/command-context.ts';
import { UsageError } from './config/usage-error.ts';

type LoadCommand = () => Promise<(context: CommandContext) => Command>;

/** Only the one that is asked for is loaded: start-up is the hot path. In the order of `--help`. */
const commands: Readonly<Record<string, LoadCommand>> = {
  init: async () => (await import('./commands/init.ts')).initCommand,
  cron: async () => (await import('./commands/cron.ts')).cronCommand,
  list: async () => (await import('./commands/list.ts')).listCommand,
  run: async () => (await import('./commands/run.ts')).runCommand,
  report: async () => (await import('./commands/report.ts')).reportCommand,
  show: async () => (await import('./commands/show.ts')).showCommand,
  tail: async () => (await import('./commands/tail.ts')).tailCommand,
};

/** Runs the command line: 0 succeeded, 1 some run failed, 2 wrong use. */
export async function main(distFolder: string): Promise<void> {
  process.stdout.on('error', endQuietlyWithoutReader);
  const context = createContext(distFolder);
  try {
    const program = await buildProgram(context, process.argv.slice(2));
    await program.parseAsync();
  } catch (error) {
    process.exitCode = reportError(error);
  }
}

function createContext(distFolder: string): CommandContext {
  return {
    cwd: process.cwd(),
    env: process.env,
    stdout: process.stdout,
    stderr: process.stderr,
    now: Date.now,
    distFolder,
    version: packageJson.version,
    setExitCode: (code) => {
      process.exitCode = code;
    },
  };
}

async function buildProgram(context: CommandContext, args: readonly string[]): Promise<Command> {
  const program = new Command('runner')
    .description('Runs the scripts of a folder and keeps a log of every run.')
    .argument('[tier]', 'run every script of jobs/<tier>: what cron calls')
    .option('--root <folder>', 'the folder that holds jobs/ (default: RUNNER_ROOT, else upward from here)')
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', examples)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .action((tier: string | undefined) => runTier(context, program, tier));
  for (const name of chooseCommands(args)) {
    const create = await (commands[name] as LoadCommand)();
    program.addCommand(create(context).exitOverride().configureOutput({ outputError: () => {} }));
  }
  return program;
}

/** The command that is named; all of them for the help; none for a tier. */
function chooseCommands(args: readonly string[]): string[] {
  const named = args.filter((arg) => Object.hasOwn(commands, arg)).slice(0, 1);
  const wantsAll = args.length === 0 || args.some((arg) => ['help', '-h', '--help'].includes(arg));
  return named.length > 0 || !wantsAll ? named : Object.keys(commands);
}

async function runTier(
  context: CommandContext,
  program: Command,
  tier: string | undefined,
): Promise<void> {
  if (tier === undefined) program.help();
  const { runTierCommand } = await import('./commands/run-tier.ts');
  await runTierCommand(context, tier as string, program.opts()['root']);
}

/** Says what is wrong in a sentence; only a defect of the runner itself shows its stack. */
function reportError(error: unknown): number {
  if (error instanceof CommanderError) return reportCommanderError(error);
  if (error instanceof UsageError) return complain(error.message, 2);
  if (isSystemError(error)) return complain(error.message, 1);
  return complain(error instanceof Error ? (error.stack ?? error.message) : String(error), 70);
}

function reportCommanderError(error: CommanderError): number {
  if (error.exitCode === 0 || error.code === 'commander.help') return 0;
  return complain(error.message.replace(/^error: /, ''), 2);
}

/** Of the operating system or of SQLite: the disk, the rights, the lock; not a defect. */
function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' && /^(E[A-Z0-9]+|SQLITE_\w+)$/.test(code) && !code.startsWith('ERR_');
}

function complain(message: string, exitCode: number): number {
  process.stderr.write(`runner: ${message}\n`);
  return exitCode;
}

/** `runner report | head`: the reader has what it wanted. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
}

const examples = `
Examples:
  $ runner init                  make jobs/ with an example in each tier
  $ runner cron --install        let cron call the tiers
  $ runner hourly                run every script of jobs/hourly now
  $ runner report                what ran, how long it took, what failed
  $ runner help report           more about one command

Exit codes: 0 all succeeded, 1 some run failed, 2 wrong use.`;
