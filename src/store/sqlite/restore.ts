import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode, UsageError } from '../../system/base/errors.ts';
import { listNames, utcStamp } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { Connection, Driver } from './connection.ts';
import { backUp } from './create.ts';
import { databaseSuffixes, judgeMarks, removeDatabase } from './file.ts';
import { findSchemaFlaws, migrateFile } from './migrations.ts';
import type { SqliteStore } from './store.ts';

interface RestoreRequest {
  /** What is to be the content of the log. */
  readonly backup: string;
  readonly driver: Driver;
  /** Refuses, by what it throws, while anybody works. */
  readonly assertIdle: () => Promise<void>;
  readonly nowMs: number;
}

/** The file that holds what was replaced; null: the log was empty. */
type Replaced = string | null;

/**
 * Replaces the content of the log by that of a backup, in one transaction: whoever has the log open sees the one or
 * the other, and a kill leaves it as it was. The log keeps its file, as renaming it would take it from under those
 * who have it open. What is replaced stays beside it.
 *
 * @throws {UsageError} if the backup is none, or is damaged
 */
export async function restoreLog(store: SqliteStore, state: StateFolder, request: RestoreRequest): Promise<Replaced> {
  const copy = join(state.path, 'activity.restore');
  try {
    takeCopy(request.backup, copy);
    prepareCopy(copy, request);
    const replaced = await replaceContent(store, state, copy, request);
    if (replaced !== null) moveStrangeOutput(store.connection, state, `${replaced}.output`);
    return replaced;
  } finally {
    removeDatabase(copy);
  }
}

/** With its journal: somebody may have copied the files of a log, and not called `runner backup`. */
function takeCopy(backup: string, copy: string): void {
  removeDatabase(copy);
  for (const suffix of databaseSuffixes.filter((each) => each !== '-shm')) {
    if (existsSync(backup + suffix)) copyFileSync(backup + suffix, copy + suffix);
  }
}

/** Looks through the copy, and brings it to the newest schema. */
function prepareCopy(copy: string, { backup, driver }: RestoreRequest): void {
  if (statSync(copy).size === 0)
    throw new UsageError(`${backup} is empty, so it is not a backup of a log; name another file.`);
  const connection = driver.open(copy, { timeoutMs: 0 });
  try {
    const problem = judgeCopy(connection, driver);
    if (problem !== null) throw new UsageError(`${backup} ${problem}. The log was not changed; name another backup.`);
    migrateFile(connection);
    connection.pragma('journal_mode = delete');
  } catch (error) {
    const isDamage = /^SQLITE_(?:CORRUPT|NOTADB)/.test(errorCode(error));
    if (!isDamage) throw error;
    throw new UsageError(
      `${backup} is damaged or not a database (${(error as Error).message}). The log was not changed; name ` +
        'another backup.',
    );
  } finally {
    connection.close();
  }
}

function judgeCopy(connection: Connection, driver: Driver): string | null {
  const other = judgeMarks(connection);
  if (other?.is === 'foreign') return `is not a backup of an activity log: ${other.reason}`;
  if (other !== null) return `was made by a newer runner (${other.reason}); upgrade this one first`;
  const answer = String(connection.pragma('integrity_check(1)'));
  if (answer !== 'ok') return `is damaged: ${answer.replaceAll('\n', ' ')}`;
  const lost = findSchemaFlaws(connection, driver).find(({ cure }) => cure === 'new-log');
  return lost === undefined ? null : `is incomplete: ${lost.what}`;
}

/** More, and somebody writes all the time. */
const MOST_TRIES = 5;

async function replaceContent(
  store: SqliteStore,
  { database }: StateFolder,
  copy: string,
  { assertIdle, nowMs }: RestoreRequest,
): Promise<Replaced> {
  const { connection } = store;
  connection.prepare('attach ? as backup').run([copy]);
  const path = freeName(`${database}.replaced-${utcStamp(nowMs)}`);
  try {
    for (let left = MOST_TRIES; left > 0; left -= 1) {
      await assertIdle();
      const version = connection.pragma('data_version');
      const replaced = isEmpty(connection) ? null : (await backUp(store, path)).path;
      if (copyContent(connection, version)) return replaced;
    }
    removeDatabase(path);
    throw new UsageError(
      'The log is being written all the time: call `npx folder-runner pause` first, and `npx folder-runner resume` later.',
    );
  } catch (error) {
    removeDatabase(path);
    throw error;
  } finally {
    connection.exec('detach backup');
  }
}

function isEmpty(connection: Connection): boolean {
  const tables = ['workers', 'jobs', 'events'].map((table) => `exists (select 1 from main.${table})`);
  const [row] = connection.prepare(`select ${tables.join(' or ')} as found`).all([]) as { readonly found: number }[];
  return row?.found === 0;
}

function freeName(wanted: string): string {
  let name = wanted;
  for (let count = 2; existsSync(name); count += 1) name = `${wanted}-${count}`;
  return name;
}

/** @returns false if somebody has written to the log since; then nothing was changed */
function copyContent(connection: Connection, version: unknown): boolean {
  connection.exec('pragma foreign_keys = off; begin immediate');
  try {
    if (connection.pragma('data_version') !== version) return false;
    const sequences = readSequences(connection);
    for (const { type, name } of readObjects(connection, 'main').toReversed()) {
      if (type !== 'index') connection.exec(`drop ${type} main.${quote(name)}`);
    }
    for (const object of readObjects(connection, 'backup')) makeObject(connection, object);
    keepSequences(connection, sequences);
    connection.exec(`pragma main.user_version = ${Number(connection.pragma('backup.user_version'))}`);
    connection.exec('commit');
    return true;
  } finally {
    if (connection.inTransaction) connection.exec('rollback');
    connection.exec('pragma foreign_keys = on');
  }
}

interface SchemaObject {
  readonly type: 'table' | 'index' | 'trigger' | 'view';
  readonly name: string;
  readonly sql: string;
}

/** Tables first, as the others are about them. */
function readObjects(connection: Connection, schema: 'main' | 'backup'): readonly SchemaObject[] {
  const order = ['table', 'index', 'trigger', 'view'].map((type, index) => `when '${type}' then ${index}`).join(' ');
  const text = `select type, name, sql from ${schema}.sqlite_schema
    where sql is not null and name not like 'sqlite~_%' escape '~' order by case type ${order} end, rowid`;
  return connection.prepare(text).all([]) as SchemaObject[];
}

/** Indexes after the rows. */
function makeObject(connection: Connection, { type, name, sql }: SchemaObject): void {
  connection.exec(sql);
  if (type !== 'table') return;
  const text = `select name from pragma_table_xinfo(?, 'backup') where hidden = 0`;
  const columns = (connection.prepare(text).all([name]) as { readonly name: string }[]).map((each) => quote(each.name));
  const list = columns.join(', ');
  connection.exec(`insert into main.${quote(name)} (${list}) select ${list} from backup.${quote(name)}`);
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

interface Sequence {
  readonly name: string;
  readonly seq: number;
}

function readSequences(connection: Connection): readonly Sequence[] {
  return connection.prepare('select name, seq from main.sqlite_sequence').all([]) as Sequence[];
}

/** No number is given twice: the files of runs are called after workers, and programs may remember jobs. */
function keepSequences(connection: Connection, before: readonly Sequence[]): void {
  for (const { name, seq } of before) {
    connection.prepare('update main.sqlite_sequence set seq = max(seq, ?) where name = ?').run([seq, name]);
    const insert = `insert into main.sqlite_sequence select ?, ?
      where not exists (select 1 from main.sqlite_sequence where name = ?)`;
    connection.prepare(insert).run([name, seq, name]);
  }
}

/** Long outputs that only the replaced log names go with it. */
function moveStrangeOutput(connection: Connection, { output }: StateFolder, to: string): void {
  const rows = connection.prepare('select output_file as file from runs where output_file is not null').all([]);
  const named = new Set((rows as { readonly file: string }[]).map(({ file }) => file));
  const strange = listNames(output).filter((name) => name.endsWith('.gz') && !named.has(name));
  if (strange.length > 0) mkdirSync(to, { mode: 0o700, recursive: true });
  for (const name of strange) renameSync(join(output, name), join(to, name));
}
