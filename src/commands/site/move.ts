import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { countOf } from '../../report/text/format.ts';
import { parseTierPeriod } from '../../schedule/period.ts';
import { checkWritable } from '../../settings/access.ts';
import { hasSpool } from '../../store/spool/files.ts';
import { isOnServer } from '../../store/which-log.ts';
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

Nothing may be running meanwhile. The folder is renamed, then its crontab lines are written for the new
place. docs/moving.md explains how to move it to another disk or host.`;

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
  const lines = await findCronOptions(context, root);
  rename(root, target);
  context.stdout.write(`${root} is now ${target}.\n`);
  if (lines !== null) await moveLines(context, root, target, lines);
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

/** What `runner cron` is to be told, so that it writes the lines that there are; null: there are none. */
async function findCronOptions({ env }: CommandContext, root: string): Promise<readonly string[] | null> {
  const { readCrontab } = await import('../../hosting/crontab/program.ts');
  const { readBlock } = await import('../../hosting/crontab/lines.ts');
  const { choiceOfLines } = await import('../../hosting/crontab/plan.ts');
  const lines = readBlock(readCrontabIfAny(env, readCrontab), root);
  if (lines.length === 0) return null;
  const { tiers, due, workMinutes } = choiceOfLines(root, lines);
  const all = tierNames(root).filter((tier) => parseTierPeriod(tier) !== null);
  const areAll = tiers === undefined || tiers.split(',').length === all.length;
  return [
    ...(due === null ? [] : ['--due', ...due]),
    ...(due === null && !areAll ? ['--tiers', tiers as string] : []),
    ...(workMinutes === null ? [] : ['--work', `${workMinutes}m`]),
  ];
}

/** Where there is no such program, a panel keeps the crontab. */
function readCrontabIfAny(env: NodeJS.ProcessEnv, read: (env: NodeJS.ProcessEnv) => Buffer): Buffer {
  try {
    return read(env);
  } catch (error) {
    if (error instanceof UsageError) return Buffer.alloc(0);
    throw error;
  }
}

function rename(root: string, target: string): void {
  try {
    renameSync(root, target);
  } catch (error) {
    if (errorCode(error) !== 'EXDEV') throw error;
    throw new UsageError(
      `${target} is on another disk, to which nothing can be renamed: docs/moving.md shows how to copy.`,
    );
  }
}

/**
 * By the command of the new place, as this one may have moved with the root. The old lines go last: killed in
 * between, they complain of the folder that is gone, where none would say nothing.
 */
async function moveLines(
  context: CommandContext,
  root: string,
  target: string,
  options: readonly string[],
): Promise<void> {
  const moved = (path: string): string => (path.startsWith(`${root}/`) ? join(target, path.slice(root.length)) : path);
  const command = [moved(join(context.distFolder, 'bin.cjs')), '--root', target, 'cron', '--install', ...options];
  const { status, stderr } = spawnSync(moved(process.execPath), command, {
    cwd: target,
    env: { ...context.env, RUNNER_ROOT: target },
    encoding: 'utf8',
  });
  context.stderr.write(stderr ?? '');
  if (status !== 0)
    throw new UsageError(
      'The crontab lines still name the old folder: call `npx folder-runner cron --install` in the new one.',
    );
  const { removeFromCrontab } = await import('../../hosting/crontab/program.ts');
  removeFromCrontab(root, context.env);
  context.stdout.write('Its crontab lines name the new folder now.\n');
}

const UNINSTALL_HELP = `
Examples:
  runner uninstall            takes the crontab lines out, and says what is left
  runner uninstall --purge    also removes .runner/: the log, the output of all runs, waiting jobs

Your scripts in jobs/ and the settings always stay. Remove the package itself afterwards, by
npm uninstall folder-runner: crontab lines that are left without it do nothing, and say so once a day.`;

interface UninstallOptions {
  readonly purge?: true;
  readonly root?: string;
}

/** `runner uninstall`: nothing calls the runner any more. */
export function uninstallCommand(context: CommandContext): Command {
  const command = new Command('uninstall');
  return command
    .description('take the crontab lines out; with --purge also remove .runner/')
    .option('--purge', 'also remove the log and all that .runner/ holds')
    .addHelpText('after', UNINSTALL_HELP)
    .action(() => uninstall(context, command.optsWithGlobals<UninstallOptions>()));
}

async function uninstall(context: CommandContext, { root: option, purge }: UninstallOptions): Promise<void> {
  const root = rootOf(context, option);
  const { path } = stateFolderOf(root);
  if (purge) await refuseToLeaveComments(context, root);
  await removeLines(context, root, purge === true);
  if (purge) await removeState(context, root);
  const kept = ['jobs', 'runner.config.*', ...(existsSync(path) ? ['.runner'] : [])].join(', ');
  context.stdout.write(`Kept in ${root}: ${kept}.\n`);
  if (isOnServer(context.env)) {
    context.stdout.write(
      'The log is on a database server, and stays there; docs/database.md tells what it consists of.\n',
    );
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

/** While cron may still call it, nothing is thrown away. */
async function removeLines(context: CommandContext, root: string, isPurge: boolean): Promise<void> {
  const { removeFromCrontab } = await import('../../hosting/crontab/program.ts');
  try {
    const change = removeFromCrontab(root, context.env);
    const done = change === 'changed' ? 'Its lines were removed from' : 'There were no lines of it in';
    context.stdout.write(`${done} your crontab.\n`);
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
