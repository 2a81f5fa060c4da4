import { Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { findRoot } from '../../place/root.ts';
import type { CommandContext } from '../shared/context.ts';
import { readBudget } from '../shared/tiers.ts';

interface CronOptions {
  readonly print?: true;
  readonly install?: true;
  readonly remove?: true;
  readonly tiers?: string;
  readonly due?: true;
  readonly budget?: string;
  /** True: each minute. False: `--no-work`. */
  readonly work?: string | boolean;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner cron --print                           the lines, to paste into a host's panel
  runner cron --install                         put them into your crontab, or bring them up to date
  runner cron --install --tiers hourly,daily    only these tiers
  runner cron --install --due                   one line for all of them, for hosts that allow only a few
  runner cron --print --due --budget 55s        and stay below the host's time limit for a line
  runner cron --install --work                  and a line that processes the queue, each minute
  runner cron --install --work 15m              the same, for hosts with a limit on frequency
  runner cron --remove                          take them out again

The lines name Node and the command by their full paths, because cron's PATH is only /usr/bin:/bin.
Only the block between the two marker lines is ever changed. An existing line of --work stays in it
unless --no-work removes it. A pass prints nothing if all scripts succeed; cron mails its summary of
failures to MAILTO. More in docs/cron.md.`;

/** `runner cron`: the crontab lines that run the tiers. */
export function cronCommand(context: CommandContext): Command {
  const command = new Command('cron');
  return command
    .description('print, install or remove the crontab lines that run the tiers')
    .addOption(modeOption('--print', 'print the lines', ['install', 'remove']))
    .addOption(modeOption('--install', 'put the lines into your crontab', ['print', 'remove']))
    .addOption(modeOption('--remove', 'take the lines out of your crontab', ['print', 'install']))
    .option(
      '--tiers <names>',
      'which tiers, separated by commas (default: all with a schedule name)',
    )
    .addOption(new Option('--due', 'one line, `runner due`, for all tiers').conflicts('tiers'))
    .option('--budget <duration>', 'with --due: how long a call may take')
    .option('--work [every]', 'also a line that processes the queue (default: every 1m)')
    .option('--no-work', 'with --install: remove an existing line of --work')
    .addHelpText('after', EXAMPLES)
    .action(() => runCron(context, command));
}

function modeOption(flag: string, description: string, others: string[]): Option {
  return new Option(flag, description).conflicts(others);
}

async function runCron(context: CommandContext, command: Command): Promise<void> {
  const options = command.optsWithGlobals<CronOptions>();
  if (options.print) return printLines(context, options);
  if (options.install) return installLines(context, options);
  if (options.remove) return removeLines(context, options);
  const option = lineOption(options);
  if (option === null) return command.outputHelp();
  throw new UsageError(`${option} needs --print or --install: it chooses the lines to write.`);
}

/** The option that says which lines to write; null: none does. */
function lineOption({ tiers, due, work }: CronOptions): string | null {
  if (due) return '--due';
  if (tiers !== undefined) return '--tiers';
  if (work === undefined) return null;
  return work === false ? '--no-work' : '--work';
}

async function printLines(context: CommandContext, options: CronOptions): Promise<void> {
  const { block, warnings } = await makeLines(context, options, null);
  context.stdout.write(block);
  warn(context, warnings);
}

async function installLines(context: CommandContext, options: CronOptions): Promise<void> {
  const { findInstalledWork } = await import('../../hosting/crontab/plan.ts');
  const installed = findInstalledWork(rootOf(context, options), context.env);
  const { root, lines, block, warnings } = await makeLines(context, options, installed);
  const { installCrontab } = await import('../../hosting/crontab/program.ts');
  const change = pasteableOnFailure(context, block, () => installCrontab(root, lines, context.env));
  const done = change === 'changed' ? 'Your crontab now has' : 'Your crontab already had';
  context.stdout.write(`${done} these lines for ${root}:\n\n${lines.join('\n')}\n\n`);
  context.stdout.write('See what ran with `runner report`; cron mails failures to MAILTO.\n');
  warn(context, warnings);
}

/** Whatever keeps `crontab` from working, the user can still paste the lines. */
function pasteableOnFailure<T>(context: CommandContext, block: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof UsageError) context.stdout.write(block);
    throw error;
  }
}

async function removeLines(context: CommandContext, options: CronOptions): Promise<void> {
  const option = lineOption(options);
  if (option !== null) {
    throw new UsageError(`--remove removes all lines of the root; leave out ${option}.`);
  }
  const root = rootOf(context, options);
  const { removeFromCrontab } = await import('../../hosting/crontab/program.ts');
  const change = removeFromCrontab(root, context.env);
  const done = change === 'changed' ? 'The lines were removed from' : 'There were no lines in';
  context.stdout.write(`${done} your crontab for ${root}.\n`);
}

/** @param installedWork every how many minutes an installed line calls `runner work`; null: none does */
async function makeLines(
  context: CommandContext,
  options: CronOptions,
  installedWork: number | null,
) {
  const root = rootOf(context, options);
  const { planCrontab, readWorkMinutes } = await import('../../hosting/crontab/plan.ts');
  const { tiers, work } = options;
  const workMinutes = work === undefined ? installedWork : readWorkMinutes(work);
  const due = dueWords(options);
  return { root, ...planCrontab(root, context.distFolder, { tiers, due, workMinutes }) };
}

/** What stands after `due` in its line; null: no such line is asked for. */
function dueWords({ due, budget }: CronOptions): readonly string[] | null {
  if (!due && budget !== undefined) {
    throw new UsageError('--budget needs --due beside it: only that line can have one.');
  }
  if (!due) return null;
  readBudget(budget);
  return budget === undefined ? [] : ['--budget', budget];
}

function rootOf(context: CommandContext, options: CronOptions): string {
  return findRoot({ option: options.root, variable: context.env.RUNNER_ROOT, cwd: context.cwd });
}

function warn(context: CommandContext, warnings: readonly string[]): void {
  for (const warning of warnings) context.stderr.write(`Note: ${warning}\n`);
}
