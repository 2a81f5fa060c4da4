import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import type { CrontabFormat } from '../../hosting/crontab/import/read.ts';
import type { AskedLines } from '../../hosting/crontab/plan.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { findRootAbove } from '../../system/place/root.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';

interface CronOptions {
  readonly print?: true;
  readonly install?: true;
  readonly remove?: true;
  readonly tiers?: string;
  /** False: `--no-due`. */
  readonly due?: boolean;
  readonly budget?: string;
  /** True: each minute. False: `--no-work`. */
  readonly work?: string | boolean;
  readonly root?: string;
  /** True: the user's own crontab. */
  readonly import?: string | true;
  readonly format?: CrontabFormat;
  readonly apply?: true;
  readonly undo?: true;
  readonly json?: true;
}

const CRON_HELP = `
Examples:
  runner cron --print                           the lines, to paste into a host's panel
  runner cron --install                         put them into your crontab, or bring them up to date
  runner cron --install --tiers hourly,daily    only these tiers
  runner cron --install --due                   one line for all of them, for hosts that allow only a few
  runner cron --print --due --budget 55s        and stay below the host's time limit for a line
  runner cron --install --work                  and a line that processes the queue, each minute
  runner cron --install --work 15m              the same, for hosts with a limit on frequency
  runner cron --remove                          take them out again
  runner cron --import                          show the scripts that would replace your crontab's lines
  runner cron --import --apply                  write these scripts, and comment the old lines out
  runner cron --import --apply --due            the same, with one line for all tiers
  runner cron --import lines.txt                show them for a file, - for stdin
  runner cron --undo                            bring the old lines back, and remove the scripts

The lines call ~/.folder-runner/cron, which finds Node and the package and says what is missing.
Only the block between the two marker lines is ever changed. What you chose before (--due, --tiers,
--work), the times of lines and what you have added to the block stay, unless an option says
otherwise. A pass prints nothing if all scripts succeed; cron mails its summary of failures to
MAILTO. More in docs/cron.md.`;

/** `runner cron`: the crontab lines that run the tiers. */
export function cronCommand(context: CommandContext): Command {
  const command = new Command('cron');
  return command
    .description('print, install or remove the crontab lines that run the tiers, or import others')
    .addOption(modeOption('--print', 'print the lines'))
    .addOption(modeOption('--install', 'put the lines into your crontab'))
    .addOption(modeOption('--remove', 'take the lines out of your crontab'))
    .addOption(modeOption('--import [file]', 'show the scripts that would replace the lines of a crontab'))
    .addOption(modeOption('--undo', 'undo --import --apply'))
    .option('--apply', 'with --import: write the scripts and change the crontab')
    .addOption(
      new Option(
        '--format <name>',
        'with --import: lines of cron.d name a user after the times (default: by the file)',
      ).choices(['crontab', 'cron.d']),
    )
    .option('--json', 'with --import: the plan as JSON')
    .option('--tiers <names>', 'which tiers, separated by commas, or all (default: as installed, else all)')
    .addOption(new Option('--due', 'one line, `npx folder-runner due`, for all tiers').conflicts('tiers'))
    .option('--no-due', 'a line for each tier again')
    .option('--budget <duration>', 'with --due: total time for a call')
    .option('--work [every]', 'also a line that processes the queue (default: every 1m)')
    .option('--no-work', 'remove an existing line of --work')
    .addHelpText('after', CRON_HELP)
    .action(() => runCron(context, command));
}

const MODES = ['print', 'install', 'remove', 'import', 'undo'] as const;

function modeOption(flag: string, description: string): Option {
  const option = new Option(flag, description);
  return option.conflicts(MODES.filter((mode) => mode !== option.name()));
}

async function runCron(context: CommandContext, command: Command): Promise<void> {
  const options = command.optsWithGlobals<CronOptions>();
  refuseUnheard(options);
  if (options.print) return printLines(context, options);
  if (options.install) return installLines(context, options);
  if (options.remove) return removeLines(context, options);
  if (options.import !== undefined) {
    const { importLines } = await import('./cron-import.ts');
    return importLines(context, rootToImport(context, options), options, await readAsked(options));
  }
  if (options.undo) return (await import('./cron-import.ts')).undoImport(context, rootOf(context, options.root));
  command.outputHelp();
  await warn(context, null, []);
}

/** An option that its mode knows nothing of would look as if it had been heeded. */
function refuseUnheard(options: CronOptions): void {
  const mode = MODES.find((name) => options[name] !== undefined) ?? null;
  const ofImport = (['apply', 'format', 'json'] as const).find((name) => options[name] !== undefined);
  if (ofImport !== undefined && mode === null) throw new UsageError(`--${ofImport} needs --import beside it.`);
  if (ofImport !== undefined && mode !== 'import') {
    throw new UsageError(`--${ofImport} is for --import and means nothing to --${mode}: leave it out.`);
  }
  const option = lineOption(options);
  if (option === null || options.print || options.install || (mode === 'import' && options.apply)) return;
  if (options.remove) throw new UsageError(`--remove removes all lines of the root; leave out ${option}.`);
  if (options.undo) throw new UsageError(`--undo brings back the lines from before the import; leave out ${option}.`);
  throw new UsageError(`${option} needs --print, --install or --import --apply: it chooses the lines to write.`);
}

/** The option that says which lines to write; null: none does. */
function lineOption({ tiers, due, budget, work }: CronOptions): string | null {
  if (due !== undefined) return due ? '--due' : '--no-due';
  if (tiers !== undefined) return '--tiers';
  if (budget !== undefined) return '--budget';
  if (work === undefined) return null;
  return work === false ? '--no-work' : '--work';
}

async function printLines(context: CommandContext, options: CronOptions): Promise<void> {
  const { root, block, warnings } = await planLines(context, options);
  context.stdout.write(block);
  await warn(context, root, warnings);
}

async function installLines(context: CommandContext, options: CronOptions): Promise<void> {
  const { root, content, dropped, block, warnings } = await planLines(context, options);
  const { installCrontab } = await import('../../hosting/crontab/program.ts');
  const change = pasteableOnFailure(context, block, () => installCrontab(root, content, context.env));
  const done = change === 'changed' ? 'Your crontab now has' : 'Your crontab already had';
  context.stdout.write(`${done} these lines for ${root}:\n\n${indent(content.lines)}\n`);
  if (dropped.length > 0) {
    const were = dropped.length === 1 ? 'This line was' : 'These lines were';
    context.stdout.write(`${were} taken out or replaced:\n\n${indent(dropped)}\n`);
  }
  context.stdout.write(
    '`npx folder-runner status` shows when each is called, `npx folder-runner report` what ran.\n' +
      (await describeMail(context, root)),
  );
  const { tellFirstCalls } = await import('./first-calls.ts');
  await tellFirstCalls(context, root);
  await warn(context, root, warnings);
}

async function describeMail({ env }: CommandContext, root: string): Promise<string> {
  const { readMailTo } = await import('../../hosting/crontab/plan.ts');
  const address = readMailTo(root, env);
  if (address === '') return 'MAILTO is empty above these lines: cron mails no failures.\n';
  if (address !== undefined)
    return `Cron mails failures to ${printableLine(Buffer.from(address, 'latin1').toString())}.\n`;
  return 'Cron mails failures to your account here; a line MAILTO=me@example.org above these sends them elsewhere.\n';
}

function indent(lines: readonly string[]): string {
  return lines.map((line) => `  ${printableLine(line)}\n`).join('');
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
  const root = rootToRemove(context, options);
  const { removeLinesOf } = await import('../../hosting/crontab/script.ts');
  const change = removeLinesOf(root, context.env);
  const done = change === 'changed' ? 'The lines were removed from' : 'There were no lines in';
  context.stdout.write(`${done} your crontab for ${root}.\n`);
  await warn(context, null, await noteCommentedOut(context, root));
}

/** Of lines that were imported nobody thinks when the root's own are gone. */
export async function noteCommentedOut({ env }: CommandContext, root: string): Promise<readonly string[]> {
  const { countCommentedOut } = await import('../../hosting/crontab/import/apply.ts');
  const count = countCommentedOut(root, env);
  if (count === 0) return [];
  const lines = count === 1 ? '1 line of your crontab stays' : `${count} lines of your crontab stay`;
  return [
    `${lines} commented out, and nothing runs the scripts instead: \`npx folder-runner cron --undo\` brings back what was.`,
  ];
}

/** One that is named may be gone: its lines outlive it. */
function rootToRemove(context: CommandContext, options: CronOptions): string {
  const named = options.root ?? context.env.RUNNER_ROOT;
  return named ? resolve(context.cwd, named) : rootOf(context, options.root);
}

/** What they call is there once they are shown: who pastes them does not come back. */
async function planLines(context: CommandContext, options: CronOptions) {
  const root = rootOf(context, options.root);
  const { planCrontab, readCrontabIfAny } = await import('../../hosting/crontab/plan.ts');
  const { writeCronScript } = await import('../../hosting/crontab/script.ts');
  const commandPath = join(context.distFolder, 'bin.cjs');
  const asked = await readAsked(options);
  const plan = planCrontab(root, asked, readCrontabIfAny(context.env), context.env, commandPath);
  writeCronScript(plan.script, root, context);
  return { root, ...plan };
}

async function readAsked(options: CronOptions): Promise<AskedLines> {
  const { readWorkMinutes } = await import('../../hosting/crontab/plan.ts');
  const { tiers, work } = options;
  const workMinutes = work === undefined ? undefined : readWorkMinutes(work);
  return { tiers, due: await dueWords(options), workMinutes };
}

/** What stands after `due` in its line; null: a line for each tier is asked for; undefined: nothing is. */
async function dueWords({ due, budget }: CronOptions): Promise<readonly string[] | null | undefined> {
  if (due !== true && budget !== undefined) {
    throw new UsageError('--budget needs --due beside it: only that line can have one.');
  }
  if (due !== true) return due === false ? null : undefined;
  const { readBudget } = await import('../shared/budget.ts');
  readBudget(budget);
  return budget === undefined ? [] : ['--budget', budget];
}

/** Before there is a root, what would become of the lines can be looked at: as if it were made here. */
function rootToImport(context: CommandContext, options: CronOptions): string {
  const isNamed = options.root !== undefined || Boolean(context.env.RUNNER_ROOT);
  const isYetToBe = !options.apply && !isNamed && findRootAbove(context.cwd) === null;
  return isYetToBe ? context.cwd : rootOf(context, options.root);
}

/** @param root null: none is asked about */
async function warn(context: CommandContext, root: string | null, warnings: readonly string[]): Promise<void> {
  const { warnOfLostRoots, warnOfUnknownVariables } = await import('../../hosting/crontab/plan.ts');
  const ofLines = root === null ? [] : warnOfUnknownVariables(context.env);
  for (const warning of [...warnings, ...ofLines, ...warnOfLostRoots(root, context.env)])
    context.stderr.write(`Note: ${warning}\n`);
}
