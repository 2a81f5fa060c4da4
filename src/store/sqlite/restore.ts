import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode, UsageError } from '../../system/base/errors.ts';
import { describeSpecial } from '../../system/base/plain-file.ts';
import { listNames, utcStamp } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { backUp, startLog } from './create.ts';
import type { Connection, Driver } from './driver.ts';
import { quoteIdentifier } from './driver.ts';
import { findSpecial, freeName, removeDatabase, withConnection } from './file.ts';
import {
  BackupRefused,
  describeRows,
  judgeBackup,
  type LeftOut,
  ofNow,
  raiseSequence,
  readBackup,
} from './read-backup.ts';
import type { SqliteStore } from './store.ts';

interface RestoreRequest {
  /** The path of the backup that becomes the content of the log. */
  readonly backup: string;
  readonly driver: Driver;
  /** Throws while a pass, a worker or a script of this root runs, and so refuses the restore. */
  readonly assertIdle: () => Promise<void>;
  readonly nowMs: number;
}

export interface Restored {
  /** The file that holds what was replaced; null: the log was empty. */
  readonly replaced: string | null;
  /** Rows of the present log that stay in it: "2 tokens", "1 pause". */
  readonly kept: readonly string[];
  /** Parts of the backup that the log does not get. */
  readonly leftOut: LeftOut;
}

/**
 * Replaces the content of the log by that of a backup, in one transaction: a process that has the log open sees the one
 * or the other, and a kill leaves the log as it was. The log keeps its file: renaming it would take it from under
 * processes that have it open. The content that is replaced stays in a file beside it.
 *
 * The backup is untrusted data: its rows are read into a log that is made here, whose content is then taken.
 *
 * @throws {UsageError} if the backup is none, or is damaged
 */
export async function restoreLog(store: SqliteStore, state: StateFolder, request: RestoreRequest): Promise<Restored> {
  const copy = join(state.path, 'activity.restore');
  const made = join(state.path, 'activity.restored');
  try {
    takeCopy(request.backup, copy);
    const leftOut = readCopy(copy, made, request);
    const { replaced, kept, unused } = await replaceContent(store, state, made, request);
    if (replaced !== null) moveStrangeOutput(store.connection, state, `${replaced}.output`);
    return { replaced, kept, leftOut: [...leftOut, ...unused] };
  } finally {
    for (const path of [copy, made]) removeDatabase(path);
  }
}

/**
 * With its write-ahead log: somebody may have copied the files of a log, and not called `runner backup`. Not with a
 * journal for rolling back: that can name a file which SQLite then deletes.
 */
function takeCopy(backup: string, copy: string): void {
  removeDatabase(copy);
  const special = findSpecial(backup);
  if (special !== null) throw new UsageError(describeSpecial(special));
  if (sizeOf(`${backup}-journal`) > 0) {
    throw new UsageError(
      `${backup} was copied in the middle of a write, as ${backup}-journal says. The log was not changed; name ` +
        'another backup.',
    );
  }
  for (const suffix of ['', '-wal']) if (existsSync(backup + suffix)) copyFileSync(backup + suffix, copy + suffix);
  if (sizeOf(copy) === 0)
    throw new UsageError(`${backup} is empty, so it is not a backup of a log; name another file.`);
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Makes a log, at the newest schema, of what is in the copy. */
function readCopy(copy: string, made: string, { backup, driver }: RestoreRequest): LeftOut {
  try {
    withConnection({ driver }, copy, (connection) => {
      judgeBackup(connection, driver);
      connection.pragma('journal_mode = delete');
    });
    startLog(made, driver);
    return withConnection({ driver }, made, (connection) => readBackup(connection, copy));
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof BackupRefused) {
      throw new UsageError(`${backup} ${message}. The log was not changed; name another backup.`);
    }
    if (!isOfContent(error)) throw error;
    throw new UsageError(
      `${backup} is damaged or not a database (${message}). The log was not changed; name another backup.`,
    );
  }
}

/** Neither the disk nor a lock: what is in the file cannot be read, or is nothing that a log holds. */
function isOfContent(error: unknown): boolean {
  const code = errorCode(error);
  return /^SQLITE_/.test(code) && !/^SQLITE_(?:FULL|IOERR|BUSY|LOCKED|READONLY|CANTOPEN|NOMEM)/.test(code);
}

/** More, and somebody writes all the time. */
const MOST_TRIES = 5;

async function replaceContent(
  store: SqliteStore,
  { database }: StateFolder,
  made: string,
  { assertIdle, nowMs }: RestoreRequest,
): Promise<Kept & { readonly replaced: string | null }> {
  const { connection } = store;
  connection.prepare('attach ? as restored').run([made]);
  const path = freeName(`${database}.replaced-${utcStamp(nowMs)}`);
  try {
    for (let left = MOST_TRIES; left > 0; left -= 1) {
      await assertIdle();
      const version = connection.pragma('data_version');
      const replaced = isEmpty(connection) ? null : (await backUp(store, path)).path;
      const kept = copyContent(connection, version);
      if (kept !== null) return { replaced, ...kept };
    }
    removeDatabase(path);
    throw new UsageError(
      'The log is being written all the time: call `npx folder-runner pause` first, and `npx folder-runner resume` later.',
    );
  } catch (error) {
    removeDatabase(path);
    throw error;
  } finally {
    connection.exec('detach restored');
  }
}

function isEmpty(connection: Connection): boolean {
  const tables = ['workers', 'jobs', 'events'].map((table) => `exists (select 1 from main.${table})`);
  const [row] = connection.prepare(`select ${tables.join(' or ')} as found`).all([]) as { readonly found: number }[];
  return row?.found === 0;
}

interface Kept {
  readonly kept: readonly string[];
  /** Rows of the backup's same tables, which are not used. */
  readonly unused: readonly string[];
}

/** @returns null: somebody has written to the log since, and nothing was changed */
function copyContent(connection: Connection, version: unknown): Kept | null {
  connection.exec('pragma foreign_keys = off; begin immediate');
  try {
    if (connection.pragma('data_version') !== version) return null;
    const sequences = readSequences(connection);
    const kept = keepRows(connection);
    for (const { type, name } of readObjects(connection, 'main').toReversed()) {
      if (type !== 'index') connection.exec(`drop ${type} main.${quoteIdentifier(name)}`);
    }
    for (const object of readObjects(connection, 'restored')) makeObject(connection, object);
    for (const { name, seq } of [...readSequences(connection, 'restored'), ...sequences]) {
      raiseSequence(connection, name, seq);
    }
    const unused = kept.flatMap((table) => putBack(connection, table));
    connection.exec(`pragma main.user_version = ${Number(connection.pragma('restored.user_version'))}`);
    connection.exec('commit');
    return { kept: kept.flatMap(describeRows), unused };
  } finally {
    if (connection.inTransaction) connection.exec('rollback');
    connection.exec('pragma foreign_keys = on');
  }
}

interface KeptTable {
  readonly name: string;
  readonly rows: number;
}

/** Puts what is of now aside: whoever has a token, what is paused, which messages are on their way. */
function keepRows(connection: Connection): readonly KeptTable[] {
  const isUnused = !['workers', 'jobs', 'pauses'].some((table) => countRows(connection, table) > 0);
  const names = isUnused ? ofNow.always : [...ofNow.always, ...ofNow.unlessUnused];
  return names.map((name) => {
    connection.exec(`create temp table kept_${name} as select * from main.${name}`);
    return { name, rows: countRows(connection, name) };
  });
}

function countRows(connection: Connection, table: string): number {
  const [found] = connection.prepare(`select count(*) as rows from main.${table}`).all([]) as [{ rows: number }];
  return found.rows;
}

/** @returns what stood there of the backup */
function putBack(connection: Connection, { name }: KeptTable): readonly string[] {
  const replaced = describeRows({ name, rows: countRows(connection, name) });
  const list = listColumns(connection, 'main', name);
  connection.exec(`delete from main.${name};
    insert into main.${name} (${list}) select ${list} from temp.kept_${name};
    drop table temp.kept_${name}`);
  return replaced;
}

interface SchemaObject {
  readonly type: 'table' | 'index' | 'trigger' | 'view';
  readonly name: string;
  readonly sql: string;
}

/** Tables first, as the others are about them. */
function readObjects(connection: Connection, schema: 'main' | 'restored'): readonly SchemaObject[] {
  const order = ['table', 'index', 'trigger', 'view'].map((type, index) => `when '${type}' then ${index}`).join(' ');
  const text = `select type, name, sql from ${schema}.sqlite_schema
    where sql is not null and name not like 'sqlite~_%' escape '~' order by case type ${order} end, rowid`;
  return connection.prepare(text).all([]) as SchemaObject[];
}

/** Indexes after the rows. */
function makeObject(connection: Connection, { type, name, sql }: SchemaObject): void {
  connection.exec(sql);
  if (type !== 'table') return;
  const list = listColumns(connection, 'restored', name);
  connection.exec(
    `insert into main.${quoteIdentifier(name)} (${list}) select ${list} from restored.${quoteIdentifier(name)}`,
  );
}

/** Those that are not computed. */
function listColumns(connection: Connection, schema: 'main' | 'restored', table: string): string {
  const text = `select name from pragma_table_xinfo(?, '${schema}') where hidden = 0`;
  const columns = connection.prepare(text).all([table]) as { readonly name: string }[];
  return columns.map(({ name }) => quoteIdentifier(name)).join(', ');
}

interface Sequence {
  readonly name: string;
  readonly seq: number;
}

function readSequences(connection: Connection, schema: 'main' | 'restored' = 'main'): readonly Sequence[] {
  const text = `select name, seq from ${schema}.sqlite_sequence
    union all select 'jobs', id from (select max(id) as id from ${schema}.jobs) where id is not null`;
  return connection.prepare(text).all([]) as Sequence[];
}

/** Long outputs that only the replaced log names go with it. */
function moveStrangeOutput(connection: Connection, { output }: StateFolder, to: string): void {
  const rows = connection.prepare('select output_file as file from runs where output_file is not null').all([]);
  const named = new Set((rows as { readonly file: string }[]).map(({ file }) => file));
  const strange = listNames(output).filter((name) => name.endsWith('.gz') && !named.has(name));
  if (strange.length > 0) mkdirSync(to, { mode: 0o700, recursive: true });
  for (const name of strange) renameSync(join(output, name), join(to, name));
}
