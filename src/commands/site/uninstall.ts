import { existsSync, lstatSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { countCommentedOut } from '../../hosting/crontab/import/apply.ts';
import { removeLinesOf } from '../../hosting/crontab/script.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { openExistingSqliteStore } from '../../store/sqlite/open.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf } from '../../system/base/format.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { noteCommentedOut } from './cron.ts';
import { assertIdle } from './idle.ts';

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
  removeLines(context, root, purge === true);
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
function removeLines(context: CommandContext, root: string, isPurge: boolean): void {
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
