import { existsSync, lstatSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { countCommentedOut } from '../../hosting/crontab/import/apply.ts';
import { countWrapped } from '../../hosting/crontab/import/wrap.ts';
import {
  type AskedLines,
  planCrontab,
  readCrontabIfAny,
  readMailTo,
  readWorkMinutes,
  warnOfLostRoots,
  warnOfUnknownVariables,
} from '../../hosting/crontab/plan.ts';
import { installCrontab } from '../../hosting/crontab/program.ts';
import { removeLinesOf, writeCronScript } from '../../hosting/crontab/script.ts';
import { readTierState } from '../../report/model/tier.ts';
import { createClock } from '../../report/text/clock.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { openExistingSqliteStore } from '../../store/sqlite/open.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { findRootAbove } from '../../system/place/root.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { type Call, cronModes, readBudget } from '../shared/command.ts';
import { type CommandContext, crontabOf } from '../shared/context.ts';
import { rootOf, withLogIfAny } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { assertIdle } from './idle.ts';

type CronOptions = Given<'cron'>;

/** `runner cron`: the crontab lines that run the tiers. */
export async function cron(context: CommandContext, options: CronOptions, { printHelp }: Call): Promise<void> {
  refuseUnheard(options);
  if (options.print) return printLines(context, options);
  if (options.install) return installLines(context, options);
  if (options.remove) return removeLines(context, options);
  if (options.import !== undefined || options.undo) {
    if (options.wrap)
      return (await import('./cron-wrap.ts')).wrapLines(context, rootOf(context, options.root), options);
    const { importLines, undoImport } = await import('./cron-import.ts');
    if (options.undo) return undoImport(context, rootOf(context, options.root));
    return importLines(context, rootToImport(context, options), options, readAsked(options));
  }
  printHelp();
  warn(context, null, []);
}

/** An option that its mode knows nothing of would look as if it had been heeded. */
function refuseUnheard(options: CronOptions): void {
  const mode = cronModes.find((name) => options[name] !== undefined) ?? null;
  const ofImport = (['apply', 'wrap', 'format', 'json', 'dryRun'] as const).find((name) => options[name] !== undefined);
  const flag = ofImport === 'dryRun' ? 'dry-run' : ofImport;
  if (flag !== undefined && mode === null) throw new UsageError(`--${flag} needs --import beside it.`);
  if (flag !== undefined && mode !== 'import') {
    throw new UsageError(`--${flag} is for --import and means nothing to --${mode}: leave it out.`);
  }
  if (options.dryRun && !options.wrap) {
    throw new UsageError('--dry-run needs --import --wrap beside it; --import without --apply changes nothing anyway.');
  }
  if (options.wrap && (options.apply || options.format !== undefined || options.import !== true)) {
    throw new UsageError('--wrap rewrites your own crontab at once: leave out --apply, --format and a file.');
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

function printLines(context: CommandContext, options: CronOptions): void {
  const { root, block, warnings } = planLines(context, options);
  context.stdout.write(block);
  warn(context, root, warnings);
}

async function installLines(context: CommandContext, options: CronOptions): Promise<void> {
  const { root, content, dropped, block, warnings } = planLines(context, options);
  const change = pasteableOnFailure(context, block, () => installCrontab(root, content, context.env));
  const done = change === 'changed' ? 'Your crontab now has' : 'Your crontab already had';
  context.stdout.write(`${done} these lines for ${root}:\n\n${indent(content.lines)}\n`);
  if (dropped.length > 0) {
    const were = dropped.length === 1 ? 'This line was' : 'These lines were';
    context.stdout.write(`${were} taken out or replaced:\n\n${indent(dropped)}\n`);
  }
  context.stdout.write(
    '`npx folder-runner status` shows when each is called, `npx folder-runner report` what ran.\n' +
      describeMail(context, root),
  );
  await tellFirstCalls(context, root);
  warn(context, root, warnings);
}

function describeMail({ env }: CommandContext, root: string): string {
  const address = readMailTo(root, env);
  if (address === '') return 'MAILTO is empty above these lines: cron mails no failures.\n';
  if (address !== undefined)
    return `Cron mails failures to ${printableLine(Buffer.from(address, 'latin1').toString())}.\n`;
  return 'Cron mails failures to your account here; a line MAILTO=me@example.org above these sends them elsewhere.\n';
}

function indent(lines: readonly string[]): string {
  return lines.map((line) => `  ${printableLine(line)}\n`).join('');
}

/** If `crontab` does not work, prints the lines for the user to paste. */
function pasteableOnFailure<T>(context: CommandContext, block: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof UsageError) context.stdout.write(block);
    throw error;
  }
}

function removeLines(context: CommandContext, options: CronOptions): void {
  const root = rootToRemove(context, options);
  const change = removeLinesOf(root, context.env);
  const done = change === 'changed' ? 'The lines were removed from' : 'There were no lines in';
  context.stdout.write(`${done} your crontab for ${root}.\n`);
  warn(context, null, noteCommentedOut(context, root));
}

/**
 * A note on imported lines that stay commented out after the root's own lines are removed: they are easily forgotten.
 */
function noteCommentedOut({ env }: CommandContext, root: string): readonly string[] {
  const wrapped = countWrapped(root, env);
  const count = countCommentedOut(root, env);
  if (wrapped > 0) {
    const still = wrapped === 1 ? '1 line still calls' : `${wrapped} lines still call`;
    return [`${still} \`exec\` of this root: \`npx folder-runner cron --undo\` brings them back as they were.`];
  }
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

/** Plans the lines, and writes the script that they call right away: a user who pastes them does not come back. */
function planLines(context: CommandContext, options: CronOptions) {
  const root = rootOf(context, options.root);
  const commandPath = join(context.distFolder, 'bin.cjs');
  const asked = readAsked(options);
  const plan = planCrontab(root, asked, readCrontabIfAny(context.env), context.env, commandPath);
  writeCronScript(plan.script, root, context);
  return { root, ...plan };
}

function readAsked(options: CronOptions): AskedLines {
  const { tiers, work } = options;
  const workMinutes = work === undefined ? undefined : readWorkMinutes(work);
  return { tiers, due: dueWords(options), workMinutes };
}

/** The words after `due` in its line; null: the user wants a line for each tier; undefined: the user did not say. */
function dueWords({ due, budget }: CronOptions): readonly string[] | null | undefined {
  if (due !== true && budget !== undefined) {
    throw new UsageError('--budget needs --due beside it: only that line can have one.');
  }
  if (due !== true) return due === false ? null : undefined;
  if (budget === undefined) return [];
  readBudget(budget);
  return ['--budget', budget];
}

/** Before there is a root, what would become of the lines can be looked at: as if it were made here. */
function rootToImport(context: CommandContext, options: CronOptions): string {
  const isNamed = options.root !== undefined || Boolean(context.env.RUNNER_ROOT);
  const isYetToBe = !options.apply && !isNamed && findRootAbove(context.cwd) === null;
  return isYetToBe ? context.cwd : rootOf(context, options.root);
}

/** @param root null: none is asked about */
function warn(context: CommandContext, root: string | null, warnings: readonly string[]): void {
  const ofLines = root === null ? [] : warnOfUnknownVariables(context.env);
  for (const warning of [...warnings, ...ofLines, ...warnOfLostRoots(root, context.env)])
    context.stderr.write(`Note: ${warning}\n`);
}

/** If one line calls all tiers, prints the first call of each tier that was never called; it may be weeks ahead. */
async function tellFirstCalls(context: CommandContext, root: string): Promise<void> {
  const crontab = await crontabOf(context, root)();
  if (crontab?.lines.some(({ calls }) => calls === 'due') !== true) return;
  const first = await withLogIfAny(context, root, async (site) => {
    const clock = createClock(site.nowMs);
    const times: string[] = [];
    for (const name of tierNames(root)) {
      const { lastPass, expected } = await readTierState(site, name, []);
      if (lastPass === null && expected !== null) times.push(`${name} ${clock.short(expected.atMs)}`);
    }
    return times;
  });
  if (first.length === 0) return;
  context.stdout.write(`Tiers that were never called begin with their next period: ${first.join(', ')}.\n`);
}

/** `runner uninstall`: nothing calls the runner any more. */
export async function uninstall(context: CommandContext, options: Given<'uninstall'>): Promise<void> {
  const { root: option, purge, yes } = options;
  const root = rootOf(context, option);
  const { path } = stateFolderOf(root);
  if (purge) refuseToLeaveComments(context, root);
  if (purge && !yes && !(await mayPurge(context, path))) {
    context.stdout.write('Nothing was removed.\n');
    context.setExitCode(1);
    return;
  }
  removeAllLines(context, root, purge === true);
  if (purge) await removeState(context, root);
  const kept = ['jobs', 'runner.config.*', ...(existsSync(path) ? ['.runner'] : [])].join(', ');
  context.stdout.write(`Kept in ${root}: ${kept}.\n`);
  if (isOnServer(context.env)) {
    context.stdout.write('The log is on a database server, and stays there; docs/database.md describes it.\n');
  }
  context.stdout.write('Next: npm uninstall folder-runner\n');
}

/** Lines that were imported would neither run again nor be known to anybody. */
function refuseToLeaveComments({ env }: CommandContext, root: string): void {
  const wrapped = countWrapped(root, env);
  if (wrapped > 0) {
    throw new UsageError(
      `${countOf(wrapped, 'line')} of your crontab ${wrapped === 1 ? 'calls' : 'call'} \`exec\` of ${root}, so nothing was ` +
        'removed: `npx folder-runner cron --undo` brings these lines back first.',
    );
  }
  const count = countCommentedOut(root, env);
  if (count === 0) return;
  throw new UsageError(
    `Scripts in ${root} stand for ${countOf(count, 'line')} of your crontab, so nothing was removed: ` +
      '`npx folder-runner cron --undo` brings these lines back first.',
  );
}

/** Without a terminal to ask at, `--purge` itself is the consent. */
async function mayPurge({ env, stdout }: CommandContext, path: string): Promise<boolean> {
  const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  if (!isThere || !process.stdin.isTTY || !stdout.isTTY) return true;
  const contents = isOnServer(env) ? 'all that it holds' : 'the log, the output of all runs and waiting jobs';
  return isYes(await ask(stdout, `Remove ${path} for good, with ${contents}? [y/N] `));
}

/** The typed answer; null if there will be none. The terminal keeps its mode, so that Ctrl+C ends the command. */
async function ask(output: NodeJS.WriteStream, question: string): Promise<string | null> {
  const { createInterface } = await import('node:readline');
  const lines = createInterface({ input: process.stdin, output, terminal: false });
  const answer = await new Promise<string | null>((resolve) => {
    lines.once('close', () => resolve(null));
    lines.question(question, resolve);
  });
  lines.close();
  return answer;
}

function isYes(answer: string | null): boolean {
  return /^\s*y(es)?\s*$/i.test(answer ?? '');
}

/** While cron may still call it, nothing is thrown away. */
function removeAllLines(context: CommandContext, root: string, isPurge: boolean): void {
  try {
    const change = removeLinesOf(root, context.env);
    const done =
      change === 'changed' ? 'Its lines were removed from your crontab.' : 'Your crontab had no lines for it.';
    context.stdout.write(`${done}\n`);
    for (const note of noteCommentedOut(context, root)) context.stderr.write(`Note: ${note}\n`);
  } catch (error) {
    if (isPurge || !(error instanceof UsageError)) throw error;
    context.stderr.write(`Note: the crontab could not be read. ${error.message}\n`);
  }
}

async function removeState(context: CommandContext, root: string): Promise<void> {
  const state = stateFolderOf(root);
  const stats = lstatSync(state.path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  const store = await openExistingSqliteStore(state);
  if (store !== null) await assertIdle(root, store).finally(() => store.close());
  // Removes only the link if it is one: its target may serve something else.
  rmSync(state.path, { recursive: !stats.isSymbolicLink(), force: true });
  context.stdout.write(`Removed: ${join(root, '.runner')}.\n`);
}
