import { closeSync, existsSync, lstatSync, openSync, readSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { checkCopy, checkStateFolder, checkWritable } from '../../settings/access.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import type { SqliteStore } from '../../store/sqlite/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { isFolder, utcStamp } from '../../system/base/values.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import { assertIdle } from './idle.ts';

interface BackupOptions {
  readonly force?: true;
  readonly root?: string;
}

const BACKUP_HELP = `
Examples:
  runner backup ~/activity.db            a copy of the log in this file
  runner backup ~/backups                a copy named activity-<date>.db in this folder, which must be there
  runner backup --force ~/activity.db    replaces yesterday's copy

The copy contains the log at one moment, also while passes write to it. It is checked before it gets
its name. Only you can read it. Only another copy is ever replaced.

Exit codes: 0 the copy was made, 1 no copy was made, 2 usage error.`;

const BACKUP_ON_A_SERVER =
  'The activity log is on a database server, which has its own tools for copies: `pg_dump --schema=folder_runner` ' +
  '(PostgreSQL) or `mysqldump --single-transaction` (MySQL, MariaDB); docs/database.md shows both.';

/** `runner backup`: a copy of the activity log. */
export function backupCommand(context: CommandContext): Command {
  const command = new Command('backup');
  return command
    .description('copy the activity log, also while passes write to it')
    .argument('<file>', 'file for the copy, with an ending; or a folder: activity-<date>.db')
    .option('--force', 'replace an existing copy')
    .addHelpText('after', BACKUP_HELP)
    .action((file: string) => backup(context, file, command.optsWithGlobals<BackupOptions>()));
}

async function backup(context: CommandContext, word: string, options: BackupOptions): Promise<void> {
  const root = rootOf(context, options.root);
  const state = stateFolderOf(root);
  if (word === '')
    throw new UsageError('`npx folder-runner backup` needs the name of a file for the copy, found an empty one.');
  if (isOnServer(context.env)) throw new UsageError(BACKUP_ON_A_SERVER);
  checkStateFolder(root, state, context.env);
  const path = targetOf(word, resolve(context.cwd, word), context.now());
  assertUsable(path, state, options.force === true);
  await checkCopy(root, path, context.env);
  const { openExistingSqliteStore } = await import('../../store/sqlite/open.ts');
  const store = await openExistingSqliteStore(state);
  if (store === null) tellNoLog(context, state);
  else await copy(context, store, path).finally(() => store.close());
}

function tellNoLog(context: CommandContext, { database }: StateFolder): void {
  context.stderr.write(`runner: There is no activity log at ${database} yet; the first pass creates it.\n`);
  context.setExitCode(1);
}

async function copy(context: CommandContext, store: SqliteStore, path: string): Promise<void> {
  const { backUp } = await import('../../store/sqlite/create.ts');
  const { formatBytes } = await import('../../system/base/format.ts');
  const { bytes } = await backUp(store, path);
  context.stdout.write(`${path} ${formatBytes(bytes)}\n`);
}

/** @throws {UsageError} where nothing is yet, and the name does not tell whether it is to be a file or a folder */
function targetOf(word: string, path: string, nowMs: number): string {
  if (isFolder(path)) return join(path, `activity-${utcStamp(nowMs)}.db`);
  const isFileName = extname(path) !== '' && !word.endsWith('/');
  if (isFileName || lstatSync(path, { throwIfNoEntry: false }) !== undefined) return path;
  throw new UsageError(
    `There is no folder ${path}. For a copy in it, make the folder first; for a file, give it an ending: ` +
      `${join(dirname(path), `${basename(path)}.db`)}.`,
  );
}

function assertUsable(path: string, state: StateFolder, isForced: boolean): void {
  const folder = dirname(path);
  if (!isFolder(folder)) {
    const isThere = existsSync(folder);
    throw new UsageError(
      isThere
        ? `${folder} is a file, not a folder; name another folder for the copy.`
        : `There is no folder ${folder}; make it first.`,
    );
  }
  if (isOfLiveLog(path, state)) {
    throw new UsageError(`${path} is the activity log itself; name another file for the copy.`);
  }
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return;
  if (!there.isFile()) {
    throw new UsageError(`${path} is ${describeKind(there)}; name a file for the copy.`);
  }
  if (!isForced) throw new UsageError(`${path} exists already; --force replaces it.`);
  if (!isDatabase(path)) {
    throw new UsageError(`${path} is not a copy of a log, so it is not replaced; name another file.`);
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

const RESTORE_HELP = `
Examples:
  runner restore ~/backups/activity-20261101-040000.db

The backup is checked first. The log is then replaced in one step, or not at all; what it held is kept
beside it. Only rows are taken from the backup, and nothing in it is run. Tokens, pauses and unsent messages
stay as they are now. Nothing may be running: call \`npx folder-runner pause\` before, and
\`npx folder-runner resume\` afterwards. Jobs that waited when the backup was made wait again, even if they
were processed since.

Exit codes: 0 the log was restored, 1 it was not, 2 usage error.`;

const RESTORE_ON_A_SERVER =
  'The activity log is on a database server, which has its own tools: `pg_restore` (PostgreSQL) or `mysql` ' +
  '(MySQL, MariaDB). docs/database.md shows both.';

/** `runner restore`: a backup becomes the log. */
export function restoreCommand(context: CommandContext): Command {
  const command = new Command('restore');
  return command
    .description('replace the activity log with a backup')
    .argument('<backup>', 'a file that `npx folder-runner backup` has made')
    .addHelpText('after', RESTORE_HELP)
    .action((file: string) => restore(context, file, command.optsWithGlobals<{ root?: string }>().root));
}

async function restore(context: CommandContext, file: string, rootOption: string | undefined): Promise<void> {
  const root = rootOf(context, rootOption);
  if (isOnServer(context.env)) throw new UsageError(RESTORE_ON_A_SERVER);
  const state = stateFolderOf(root);
  const backup = resolve(context.cwd, file);
  assertBackup(backup, state.database);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
  const { openSqliteStore } = await import('../../store/sqlite/open.ts');
  const { findDriver } = await import('../../store/sqlite/driver.ts');
  const { restoreLog } = await import('../../store/sqlite/restore.ts');
  const { isCorruption } = await import('../../store/failures.ts');
  const { markSuspect } = await import('../../store/sqlite/file.ts');
  const { toldPlainly } = await import('../../store/describe-failure.ts');
  const { driver } = await findDriver();
  const restoreOnce = async () => {
    const store = await openSqliteStore(state);
    if (store.quarantined !== null) context.stderr.write(`Note: ${store.quarantined}\n`);
    const request = { backup, driver, nowMs: context.now(), assertIdle: () => assertIdle(root, store) };
    return await toldPlainly(state, () => restoreLog(store, state, request)).finally(() => store.close());
  };
  // A damaged log is what one restores a backup for: it is set aside by whoever opens it after that was noticed.
  const { replaced, kept, leftOut } = await restoreOnce().catch((error: unknown) => {
    if (!isCorruption(error)) throw error;
    markSuspect(state);
    return restoreOnce();
  });
  const before = replaced === null ? '' : ` The previous one is kept in ${relative(root, replaced)}.`;
  context.stdout.write(`Restored the activity log of ${root} from ${backup}.${before}\n`);
  if (kept.length > 0) context.stdout.write(`Kept as they are now: ${printableLine(kept.join(', '))}.\n`);
  if (leftOut.length > 0) context.stdout.write(`Left out of the backup: ${printableLine(leftOut.join(', '))}.\n`);
  context.stdout.write(
    '`npx folder-runner report` shows it; `npx folder-runner jobs` shows the jobs that wait in it.\n',
  );
}

function assertBackup(backup: string, database: string): void {
  const stats = lstatSync(backup, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError(`There is no file ${backup}; name a backup of the log.`);
  if (!statSync(backup).isFile()) throw new UsageError(`${backup} is not a file; name a backup of the log.`);
  if (existsSync(database) && realpathSync(backup) === realpathSync(database)) {
    throw new UsageError(`${backup} is the activity log itself; name a backup of it.`);
  }
}
