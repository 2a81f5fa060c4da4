import { closeSync, existsSync, lstatSync, openSync, readSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { checkCopy } from '../../settings/access.ts';
import type { SqliteStore } from '../../store/sqlite/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { utcStamp } from '../../system/base/values.ts';
import { type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';

import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';

interface BackupOptions {
  readonly force?: true;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner backup ~/activity.db            a copy of the log in this file
  runner backup ~/backups                a copy named activity-<date>.db in this folder
  runner backup --force ~/activity.db    replaces yesterday's copy

The copy contains the log at one moment, also while passes write to it. It is checked before it gets
its name. Only you can read it. Only another copy is ever replaced.

Exit codes: 0 the copy was made, 1 there is none, 2 usage error.`;

/** `runner backup`: a copy of the activity log. */
export function backupCommand(context: CommandContext): Command {
  const command = new Command('backup');
  return command
    .description('copy the activity log, also while passes write to it')
    .argument('<file>', 'file for the copy; in a folder: activity-<date>.db')
    .option('--force', 'replace an existing copy')
    .addHelpText('after', EXAMPLES)
    .action((file: string) => backup(context, file, command.optsWithGlobals<BackupOptions>()));
}

async function backup(context: CommandContext, word: string, options: BackupOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const state = stateFolderOf(root);
  if (word === '') throw new UsageError('`runner backup` expects the name of a file for the copy, found an empty one.');
  const path = targetOf(resolve(context.cwd, word), context.now());
  assertUsable(path, state, options.force === true);
  await checkCopy(root, path, context.env);
  const { openExistingStore } = await import('../../store/sqlite/open.ts');
  const store = await openExistingStore(state);
  if (store === null) tellNoLog(context, state);
  else await copy(context, store, path).finally(() => store.close());
}

function tellNoLog(context: CommandContext, { database }: StateFolder): void {
  context.stderr.write(`runner: There is no activity log at ${database} yet.\n`);
  context.setExitCode(1);
}

async function copy(context: CommandContext, store: SqliteStore, path: string): Promise<void> {
  const { backUp } = await import('../../store/sqlite/create.ts');
  const { formatBytes } = await import('../../report/text/format.ts');
  const { bytes } = await backUp(store, path);
  context.stdout.write(`${path} ${formatBytes(bytes)}\n`);
}

function targetOf(path: string, nowMs: number): string {
  return isFolder(path) ? join(path, `activity-${utcStamp(nowMs)}.db`) : path;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function assertUsable(path: string, state: StateFolder, isForced: boolean): void {
  const folder = dirname(path);
  if (!isFolder(folder)) throw new UsageError(`There is no folder ${folder}; make it first.`);
  if (isOfLiveLog(path, state)) {
    throw new UsageError(`${path} is the activity log itself; name another file for the copy.`);
  }
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return;
  if (!there.isFile()) {
    throw new UsageError(`${path} is ${describeKind(there)}; name a file for the copy.`);
  }
  if (!isForced) throw new UsageError(`${path} is there already; --force replaces it.`);
  if (!isDatabase(path)) {
    throw new UsageError(`${path} is no copy of a log, so that it is not replaced; name another file.`);
  }
}

/** A copy would take the place of what is there: of a link, and not of what it leads to. */
function describeKind(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a symlink, which a copy would replace';
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a FIFO';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Every SQLite file begins so; a copy of a log that broke off may be empty. */
const DATABASE_START = 'SQLite format 3\0';

function isDatabase(path: string): boolean {
  const start = Buffer.alloc(DATABASE_START.length);
  const fd = openSync(path, 'r');
  try {
    const length = readSync(fd, start);
    return length === 0 || start.toString('latin1') === DATABASE_START;
  } finally {
    closeSync(fd);
  }
}

/** The log or a file that SQLite keeps beside it, by whatever way it is named. */
function isOfLiveLog(path: string, state: StateFolder): boolean {
  const real = existsSync(path) ? realpathSync(path) : path;
  return (
    existsSync(state.path) &&
    realpathSync(dirname(real)) === realpathSync(state.path) &&
    /^activity\.db(-wal|-shm|-journal)?$/.test(basename(real))
  );
}
