import { closeSync, existsSync, lstatSync, openSync, readSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { checkCopy, checkStateFolder, checkWritable } from '../../settings/access.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { isCorruption } from '../../store/failures.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { backUp } from '../../store/sqlite/create.ts';
import { findDriver } from '../../store/sqlite/driver.ts';
import { markSuspect } from '../../store/sqlite/file.ts';
import { openExistingSqliteStore, openSqliteStore } from '../../store/sqlite/open.ts';
import { restoreLog } from '../../store/sqlite/restore.ts';
import type { SqliteStore } from '../../store/sqlite/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { formatBytes } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { isFolder, utcStamp } from '../../system/base/values.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { assertIdle } from './idle.ts';

const BACKUP_ON_A_SERVER =
  'The activity log is on a database server, which has its own tools for copies: `pg_dump --schema=folder_runner` ' +
  '(PostgreSQL) or `mysqldump --single-transaction` (MySQL, MariaDB); docs/database.md shows both.';

/** `runner backup`: a copy of the activity log. */
export async function backup(context: CommandContext, options: Given<'backup'>): Promise<void> {
  const { file: word } = options;
  const root = rootOf(context, options.root);
  const state = stateFolderOf(root);
  if (word === '')
    throw new UsageError('`npx folder-runner backup` needs the name of a file for the copy, found an empty one.');
  if (isOnServer(context.env)) throw new UsageError(BACKUP_ON_A_SERVER);
  checkStateFolder(root, state, context.env);
  const path = targetOf(word, resolve(context.cwd, word), context.now());
  assertUsable(path, state, options.force === true);
  await checkCopy(root, path, context.env);
  const store = await openExistingSqliteStore(state);
  if (store === null) tellNoLog(context, state);
  else await copy(context, store, path).finally(() => store.close());
}

function tellNoLog(context: CommandContext, { database }: StateFolder): void {
  context.stderr.write(`runner: There is no activity log at ${database} yet; the first pass creates it.\n`);
  context.setExitCode(1);
}

async function copy(context: CommandContext, store: SqliteStore, path: string): Promise<void> {
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

const RESTORE_ON_A_SERVER =
  'The activity log is on a database server, which has its own tools: `pg_restore` (PostgreSQL) or `mysql` ' +
  '(MySQL, MariaDB). docs/database.md shows both.';

/** `runner restore`: a backup becomes the log. */
export async function restore(context: CommandContext, options: Given<'restore'>): Promise<void> {
  const root = rootOf(context, options.root);
  if (isOnServer(context.env)) throw new UsageError(RESTORE_ON_A_SERVER);
  const state = stateFolderOf(root);
  const backup = resolve(context.cwd, options.backup);
  assertBackup(backup, state.database);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
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
