import { existsSync, lstatSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { isOnServer } from '../../store/shared/which-log.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import { assertIdle } from './idle.ts';

const UNINSTALL_HELP = `
Examples:
  runner uninstall            takes the crontab lines out, and says what is left
  runner uninstall --purge    also removes .runner/: the log, the output of all runs, waiting jobs

On a terminal --purge asks first, unless --yes is given; elsewhere it does not ask.
Your scripts in jobs/ and the settings always stay. Remove the package itself afterwards, by
npm uninstall folder-runner: crontab lines that are left without it run nothing, and say so once a day.`;

interface UninstallOptions {
  readonly purge?: true;
  readonly yes?: true;
  readonly root?: string;
}

/** `runner uninstall`: nothing calls the runner any more. */
export function uninstallCommand(context: CommandContext): Command {
  const command = new Command('uninstall');
  return command
    .description('take the crontab lines out; with --purge also remove .runner/')
    .option('--purge', 'also remove the log and all that .runner/ holds')
    .option('--yes', 'do not ask on a terminal before --purge removes anything')
    .addHelpText('after', UNINSTALL_HELP)
    .action(() => uninstall(context, command.optsWithGlobals<UninstallOptions>()));
}

async function uninstall(context: CommandContext, { root: option, purge, yes }: UninstallOptions): Promise<void> {
  const root = rootOf(context, option);
  const { path } = stateFolderOf(root);
  if (purge) await refuseToLeaveComments(context, root);
  if (purge && !yes && !(await mayPurge(context, path))) {
    context.stdout.write('Nothing was removed.\n');
    context.setExitCode(1);
    return;
  }
  await removeLines(context, root, purge === true);
  if (purge) await removeState(context, root);
  const kept = ['jobs', 'runner.config.*', ...(existsSync(path) ? ['.runner'] : [])].join(', ');
  context.stdout.write(`Kept in ${root}: ${kept}.\n`);
  if (isOnServer(context.env)) {
    context.stdout.write('The log is on a database server, and stays there; docs/database.md describes it.\n');
  }
  context.stdout.write('Next: npm uninstall folder-runner\n');
}

/** Lines that were imported would neither run again nor be known to anybody. */
async function refuseToLeaveComments({ env }: CommandContext, root: string): Promise<void> {
  const { countCommentedOut } = await import('../../hosting/crontab/import/apply.ts');
  const count = countCommentedOut(root, env);
  if (count === 0) return;
  throw new UsageError(
    `Scripts in ${root} stand for ${countOf(count, 'line')} of your crontab, so nothing was removed: ` +
      '`npx folder-runner cron --undo` brings these lines back first.',
  );
}

/** Where nobody can be asked, `--purge` itself is the consent. */
async function mayPurge({ env, stdout }: CommandContext, path: string): Promise<boolean> {
  const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  if (!isThere || !process.stdin.isTTY || !stdout.isTTY) return true;
  const contents = isOnServer(env) ? 'all that it holds' : 'the log, the output of all runs and waiting jobs';
  return isYes(await ask(stdout, `Remove ${path} for good, with ${contents}? [y/N] `));
}

/** What is typed; null where nothing will be. The terminal stays as it is, so that Ctrl+C ends the command. */
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
async function removeLines(context: CommandContext, root: string, isPurge: boolean): Promise<void> {
  const { removeLinesOf } = await import('../../hosting/crontab/script.ts');
  try {
    const change = removeLinesOf(root, context.env);
    const done =
      change === 'changed' ? 'Its lines were removed from your crontab.' : 'Your crontab had no lines for it.';
    context.stdout.write(`${done}\n`);
    const { noteCommentedOut } = await import('./cron.ts');
    for (const note of await noteCommentedOut(context, root)) context.stderr.write(`Note: ${note}\n`);
  } catch (error) {
    if (isPurge || !(error instanceof UsageError)) throw error;
    context.stderr.write(`Note: the crontab could not be read. ${error.message}\n`);
  }
}

async function removeState(context: CommandContext, root: string): Promise<void> {
  const state = stateFolderOf(root);
  const stats = lstatSync(state.path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  const { openExistingSqliteStore } = await import('../../store/sqlite/open.ts');
  const store = await openExistingSqliteStore(state);
  if (store !== null) await assertIdle(root, store).finally(() => store.close());
  // Of a link, the link goes alone: what it leads to may serve something else.
  rmSync(state.path, { recursive: !stats.isSymbolicLink(), force: true });
  context.stdout.write(`Removed: ${join(root, '.runner')}.\n`);
}
