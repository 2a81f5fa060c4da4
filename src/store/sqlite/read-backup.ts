import { isKeptOutputName } from '../../system/place/state-folder.ts';
import type { Connection, Driver } from './driver.ts';
import { quoteIdentifier } from './driver.ts';
import { judgeMarks } from './file.ts';
import { isOwnSchema, makeTables, migrateFile } from './migrations.ts';

/** The parts of a backup that did not become part of the log, each in words for people: "3 tokens", "the trigger x". */
export type LeftOut = readonly string[];

/** Why a file is no backup that can be taken; a sentence without its subject. */
export class BackupRefused extends Error {
  override readonly name = 'BackupRefused';
}

/**
 * Tables that hold permissions, pauses and undelivered messages of the present. A backup has those of another time: a
 * token that was revoked since would be valid again.
 */
export const ofNow = {
  /** Never taken from a backup. */
  always: ['tokens', 'deliveries', 'tellings'],
  /** Taken only where the log was not in use: a site that has moved to another host stays paused. */
  unlessUnused: ['pauses', 'mutes'],
} as const;

/**
 * Looks whether a file is a backup. Nothing of what its schema says is ever run: SQLite's own check evaluates the
 * conditions in it, and so is only asked where each of them is the runner's own.
 *
 * @throws {BackupRefused}
 */
export function judgeBackup(connection: Connection, driver: Driver): void {
  keepFromRunning(connection);
  const marks = judgeMarks(connection);
  if (marks.is === 'moved') throw new BackupRefused(`is not a backup of an activity log: moved to ${marks.reason}`);
  if (marks.is === 'foreign') throw new BackupRefused(`is not a backup of an activity log: ${marks.reason}`);
  if (marks.is === 'unreleased') throw new BackupRefused(`was made before the first release (${marks.reason})`);
  if (marks.is === 'newer-schema')
    throw new BackupRefused(`was made by a newer runner (${marks.reason}); upgrade this one first`);
  if (!isOwnSchema(connection, driver)) return;
  const answer = String(connection.pragma('integrity_check(1)'));
  if (answer !== 'ok') throw new BackupRefused(`is damaged: ${answer.replaceAll('\n', ' ')}`);
}

/** Lets functions in the backup's schema only compute, and finds damaged pages sooner. */
function keepFromRunning(connection: Connection): void {
  connection.exec('pragma trusted_schema = off; pragma cell_size_check = on');
}

/**
 * Fills a new log with the rows of a backup: the known columns of the known tables of the backup's version, which are
 * then brought to the newest schema. All that makes tables, indexes and views is the runner's own.
 *
 * @param connection of an empty file
 * @throws {BackupRefused}
 */
export function readBackup(connection: Connection, backup: string): LeftOut {
  keepFromRunning(connection);
  connection.prepare('attach ? as backup').run([backup]);
  try {
    const version = Math.max(0, Number(connection.pragma('backup.user_version')));
    makeTables(connection, version);
    const tables = readTables(connection);
    if (tables.length === 0) throw new BackupRefused('is incomplete: it has no tables');
    connection.exec('pragma foreign_keys = off; begin');
    const lost = tables.flatMap((table) =>
      isOfNow(table.name) ? countTheirs(connection, table) : copyTable(connection, table),
    );
    const files = dropStrangeFiles(connection);
    copyNumbers(connection, tables);
    connection.exec('commit');
    const strangers = listStrangers(connection);
    migrateFile(connection);
    return [...lost, ...files, ...strangers];
  } finally {
    if (connection.inTransaction) connection.exec('rollback');
    connection.exec('detach backup');
  }
}

function isOfNow(table: string): boolean {
  return ofNow.always.some((name) => name === table);
}

interface OwnTable {
  readonly name: string;
  readonly columns: readonly OwnColumn[];
}

interface OwnColumn {
  readonly name: string;
  readonly type: string;
}

function readTables(connection: Connection): readonly OwnTable[] {
  const names = connection.prepare(
    `select name from main.sqlite_schema where type = 'table' and name not like 'sqlite~_%' escape '~' order by rowid`,
  );
  const columns = connection.prepare(`select name, lower(type) as type from pragma_table_info(?, 'main')`);
  return (names.all([]) as { readonly name: string }[]).map(({ name }) => ({
    name,
    columns: columns.all([name]) as OwnColumn[],
  }));
}

/** @returns what of it was left out */
function copyTable(connection: Connection, table: OwnTable): readonly string[] {
  const added = assertPlainTable(connection, table);
  const names = table.columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const values = table.columns.map(asOwnKind).join(', ');
  const from = `backup.${quoteIdentifier(table.name)} not indexed`;
  // If the pages of a file lead in circles, a row comes twice: its number, which must be unique, ends this.
  connection.exec(`insert into main.${quoteIdentifier(table.name)} (${names}) select ${values} from ${from}`);
  const isStrange = table.columns.map(({ name, type }) => `(${isOfOtherKind(name, type)})`).join(' + ');
  const [found] = connection.prepare(`select sum(${isStrange}) as count from ${from}`).all([]) as [{ count: unknown }];
  const count = Number(found.count ?? 0);
  const strange = count === 0 ? [] : [`${count} ${count === 1 ? 'value' : 'values'} of another kind in ${table.name}`];
  return [...added.map((column) => `the column ${table.name}.${column.slice(0, LONGEST_NAME)}`), ...strange];
}

/**
 * A view under the name of a table would be run by reading it, and so would a column that is computed.
 *
 * @returns the columns that are not the runner's own
 */
function assertPlainTable(connection: Connection, { name, columns }: OwnTable): readonly string[] {
  const objects = connection
    .prepare(`select type, name, sql from backup.sqlite_schema where lower(name) = lower(?)`)
    .all([name]) as { readonly type: unknown; readonly name: unknown; readonly sql: unknown }[];
  const [object] = objects;
  if (object === undefined) throw new BackupRefused(`is incomplete: the table ${name} is missing`);
  const isTable = objects.length === 1 && object.type === 'table' && object.name === name;
  if (!isTable || !/^create\s+table\b/i.test(String(object.sql)))
    throw new BackupRefused(`is not a backup of an activity log: ${name} is not a table in it`);
  const found = connection.prepare(`select name, hidden from pragma_table_xinfo(?, 'backup')`).all([name]) as {
    readonly name: string;
    readonly hidden: number;
  }[];
  const plain = new Set(found.filter(({ hidden }) => hidden === 0).map((column) => column.name));
  const missing = columns.find((column) => !plain.has(column.name));
  if (missing !== undefined)
    throw new BackupRefused(`is incomplete: the column ${name}.${missing.name} is missing or computed`);
  const own = new Set(columns.map((column) => column.name));
  return found.map((column) => column.name).filter((column) => !own.has(column));
}

/** Converts a value as a move to a server does: to whole numbers and text. A value that is neither becomes null. */
function asOwnKind({ name, type }: OwnColumn): string {
  const column = quoteIdentifier(name);
  if (type === 'integer')
    return `case typeof(${column}) when 'integer' then ${column} when 'real' then cast(round(${column}) as integer) end`;
  if (type === 'real') return `case when typeof(${column}) in ('integer', 'real') then ${column} end`;
  return type === 'text' ? `cast(${column} as text)` : column;
}

function isOfOtherKind(name: string, type: string): string {
  const isNumber = type === 'integer' || type === 'real';
  return isNumber ? `typeof(${quoteIdentifier(name)}) in ('text', 'blob')` : '0';
}

/** By its name a file is read and deleted. Each reader looks at it, too; but no log of this machine holds any other. */
function dropStrangeFiles(connection: Connection): readonly string[] {
  const forget = 'update main.runs set output_file = null, output_file_bytes = null where';
  const long = connection.prepare(`${forget} length(cast(output_file as blob)) > ${LONGEST_FILE_NAME}`).run([]);
  let count = Number(long.changes);
  const named = connection.prepare('select id, output_file as file from main.runs where output_file is not null');
  const strange = (named.all([]) as { readonly id: number; readonly file: string }[])
    .filter(({ file }) => !isKeptOutputName(file))
    .map(({ id }) => id);
  for (const id of strange) connection.prepare(`${forget} id = ?`).run([id]);
  count += strange.length;
  return count === 0 ? [] : [`${count} ${count === 1 ? 'name' : 'names'} of output files that lead elsewhere`];
}

const LONGEST_FILE_NAME = 255;

/** The highest number ever given, where it is one that could have been. */
function copyNumbers(connection: Connection, tables: readonly OwnTable[]): void {
  const [own] = connection.prepare(`select 1 from main.sqlite_schema where name = 'sqlite_sequence'`).all([]);
  const [theirs] = connection
    .prepare(`select 1 from backup.sqlite_schema where name = 'sqlite_sequence' and sql like 'create table %'`)
    .all([]);
  if (own === undefined || theirs === undefined) return;
  const read = connection.prepare(
    `select max(seq) as seq from backup.sqlite_sequence where name = ? and typeof(seq) = 'integer' and seq between 1 and ?`,
  );
  for (const { name } of tables) {
    const [found] = read.all([name, Number.MAX_SAFE_INTEGER - MOST_TO_COME]) as [{ seq: number | null }];
    if (found.seq !== null) raiseSequence(connection, name, found.seq);
  }
}

/** The largest number to believe leaves at least this many numbers for later rows. */
const MOST_TO_COME = 2 ** 40;

/** No number is given twice: the files of runs are called after workers, and programs may remember jobs. */
export function raiseSequence(connection: Connection, name: string, seq: number): void {
  const values = [seq, name];
  connection.prepare('update main.sqlite_sequence set seq = max(seq, cast(? as integer)) where name = ?').run(values);
  const insert = `insert into main.sqlite_sequence (seq, name) select cast(? as integer), ?
    where not exists (select 1 from main.sqlite_sequence where name = ?)`;
  if (hasNumbers(connection, name)) connection.prepare(insert).run([...values, name]);
}

function hasNumbers(connection: Connection, table: string): boolean {
  const text = `select 1 from main.sqlite_schema where name = ? and (name = 'jobs' or sql like '%autoincrement%')`;
  return connection.prepare(text).all([table]).length > 0;
}

/** Most rows to count: if the pages of a file lead in circles, there is no end. */
const MOST_COUNTED = 1_000;

function countTheirs(connection: Connection, table: OwnTable): readonly string[] {
  assertPlainTable(connection, table);
  const text = `select 1 from backup.${quoteIdentifier(table.name)} not indexed limit ${MOST_COUNTED}`;
  return describeRows({ name: table.name, rows: connection.prepare(text).all([]).length });
}

/** "2 tokens"; none of what is not worth a word. */
export function describeRows({ name, rows }: { readonly name: string; readonly rows: number }): string[] {
  const [one, many] = words[name] ?? [];
  if (rows === 0 || one === undefined) return [];
  return [`${rows >= MOST_COUNTED ? `at least ${rows}` : rows} ${rows === 1 ? one : many}`];
}

const words: Readonly<Record<string, readonly [one: string, many: string]>> = {
  tokens: ['token', 'tokens'],
  pauses: ['pause', 'pauses'],
  mutes: ['mute', 'mutes'],
  deliveries: ['unsent message', 'unsent messages'],
};

const MOST_NAMED = 5;
const LONGEST_NAME = 80;

/** Names objects that another program has added to the file. SQLite's own, statistics for example, are left out. */
function listStrangers(connection: Connection): readonly string[] {
  const text = `select type, name from backup.sqlite_schema as theirs
    where name not like 'sqlite~_%' escape '~'
      and not exists (select 1 from main.sqlite_schema as own where own.name = theirs.name and own.type = theirs.type)
    order by theirs.rowid limit ${MOST_NAMED + 1}`;
  const found = connection.prepare(text).all([]) as { readonly type: string; readonly name: string }[];
  const named = found
    .slice(0, MOST_NAMED)
    .map(({ type, name }) => `the ${type} ${String(name).slice(0, LONGEST_NAME)}`);
  return found.length > MOST_NAMED ? [...named, 'further objects'] : named;
}
