import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { countOf } from '../../report/text/format.ts';
import { checkWritable } from '../../settings/access.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { hasSpool } from '../../store/spool/files.ts';
import { errorCode, UsageError } from '../../system/base/errors.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { findWebRoot } from '../../system/place/web-exposure.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import { assertIdle } from './idle.ts';

const MOVE_HELP = `
Examples:
  runner move ~/runner    the whole root, with its log, settings and crontab lines

Nothing may be running. The folder is renamed, and its crontab lines name the new folder and keep their
times. docs/cron.md describes the move to another disk or host.`;

/** `runner move`: a root to another place of the same disk. */
export function moveCommand(context: CommandContext): Command {
  const command = new Command('move');
  return command
    .description('move a root with its log and its crontab lines to another folder')
    .argument('<folder>', 'the new place of the root; it must not exist, or be empty')
    .addHelpText('after', MOVE_HELP)
    .action((folder: string) => move(context, folder, command.optsWithGlobals<{ root?: string }>().root));
}

async function move(context: CommandContext, folder: string, rootOption: string | undefined): Promise<void> {
  const root = rootOf(context, rootOption);
  const target = resolve(context.cwd, folder);
  assertTarget(root, target);
  await assertMovable(context, root);
  // Loaded before the package moves, perhaps, with the root.
  const { moveLines } = await import('../../hosting/crontab/move-lines.ts');
  rename(root, target);
  context.stdout.write(`${root} is now ${target}.\n`);
  const { distFolder, version, env } = context;
  if (moveLines(root, target, { distFolder, version }, env)) {
    context.stdout.write('Its crontab lines name the new folder now, and keep their times.\n');
  }
  for (const file of listFilesThatName(target, root)) {
    context.stderr.write(`Note: ${join(target, file)} still names ${root}: correct that path.\n`);
  }
  context.stdout.write(
    'Change all programs that name the old folder: sites that add jobs, RUNNER_ROOT, the web server, other shells.\n',
  );
}

function assertTarget(root: string, target: string): void {
  if (target === root) throw new UsageError(`${target} is the folder of the root already; name another one.`);
  if (target.startsWith(`${root}/`)) throw new UsageError(`${target} is inside the root; name a folder outside it.`);
  if (!existsSync(dirname(target))) throw new UsageError(`There is no folder ${dirname(target)}; make it first.`);
  const stats = statSync(target, { throwIfNoEntry: false });
  if (stats !== undefined && !(stats.isDirectory() && readdirSync(target).length === 0)) {
    throw new UsageError(`${target} exists already; name a folder that does not exist.`);
  }
  const webRoot = findWebRoot(target);
  if (webRoot === null) return;
  throw new UsageError(
    `${target} is inside ${webRoot}, which a web server probably serves; choose a folder beside it.`,
  );
}

async function assertMovable(context: CommandContext, root: string): Promise<void> {
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  const [fallback] = trustedFallbacksOf(root).filter(hasSpool);
  if (fallback !== undefined) {
    throw new UsageError(
      `Runs of this root wait in ${fallback.path}: run a tier first, which takes them into the log.`,
    );
  }
  const { openExistingStore } = await import('../../store/open.ts');
  const store = await openExistingStore(state);
  if (store !== null) await assertIdle(root, store).finally(() => store.close());
}

function rename(root: string, target: string): void {
  try {
    renameSync(root, target);
  } catch (error) {
    if (errorCode(error) !== 'EXDEV') throw error;
    throw new UsageError(
      `${target} is on another disk, and a folder cannot be renamed to there: docs/cron.md shows how to copy it.`,
    );
  }
}

/** Longer ones are hardly written by hand. */
const MOST_BYTES = 1024 * 1024;

/** Settings and scripts with the old path in them fail at their next turn, which may be in a month. */
function listFilesThatName(root: string, path: string): readonly string[] {
  const settings = readdirSync(root).filter((name) => name.startsWith('runner.config.'));
  const scripts = readdirSync(join(root, 'jobs'), { recursive: true, encoding: 'utf8' }).map((name) =>
    join('jobs', name),
  );
  return [...settings, ...scripts].filter((name) => {
    const stats = lstatSync(join(root, name));
    return stats.isFile() && stats.size <= MOST_BYTES && readFileSync(join(root, name)).includes(`${path}/`);
  });
}

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
  const { removeLinesOf } = await import('../../hosting/crontab/remove.ts');
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
