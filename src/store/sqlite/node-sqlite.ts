import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { SqliteStatement } from 'kysely';
import { errorCode } from '../../base/errors.ts';
import type { Connection, ConnectionOptions, Driver } from './connection.ts';

type Sqlite = typeof DatabaseSync;
type Values = readonly unknown[];

/**
 * Node's own SQLite, for where better-sqlite3's binary cannot be loaded.
 *
 * @throws when this Node has none, or was told not to have it
 */
export function loadNodeSqlite(): Driver {
  const Sqlite = withoutSqliteWarning(loadModule);
  return {
    name: 'node:sqlite',
    open: (path, options) => wrap(named(() => openDatabase(Sqlite, path, options))),
  };
}

function loadModule(): Sqlite {
  const module = process.getBuiltinModule('node:sqlite') as
    | { readonly Database?: Sqlite; readonly DatabaseSync: Sqlite }
    | undefined;
  const Sqlite = module?.Database ?? module?.DatabaseSync;
  if (Sqlite === undefined) throw new Error(`Node ${process.versions.node} has no node:sqlite`);
  return Sqlite;
}

/** Node 22 calls its SQLite experimental, on stderr: cron would mail that at each pass. */
export function withoutSqliteWarning<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = (warning: string | Error, ...rest: unknown[]) => {
    if (/^SQLite is an experimental feature/.test(String(warning))) return;
    Reflect.apply(emitWarning, process, [warning, ...rest]);
  };
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function openDatabase(
  Sqlite: Sqlite,
  path: string,
  { timeoutMs, access = 'read-write' }: ConnectionOptions,
): DatabaseSync {
  const place = pathToFileURL(path);
  // Without it SQLite makes the file when it is missing.
  if (access === 'read-write') place.searchParams.set('mode', 'rw');
  if (access === 'immutable') place.searchParams.set('immutable', '1');
  return new Sqlite(place, { timeout: timeoutMs, readOnly: access !== 'read-write' });
}

function wrap(database: DatabaseSync): Connection {
  const prepare = (text: string): SqliteStatement => wrapStatement(database.prepare(text), text);
  return {
    driver: 'node:sqlite',
    get inTransaction() {
      return database.isTransaction;
    },
    prepare: (text) => named(() => prepare(text)),
    exec: (statements) => named(() => database.exec(statements)),
    pragma: (text) => named(() => readValue(prepare(`pragma ${text}`))),
    close: () => {
      if (database.isOpen) database.close();
    },
  };
}

function readValue(statement: SqliteStatement): unknown {
  return Object.values((statement.all([])[0] as object | undefined) ?? {})[0];
}

function wrapStatement(statement: StatementSync, text: string): SqliteStatement {
  // Else a number beyond 2^53 is an error, and better-sqlite3 rounds it.
  statement.setReadBigInts(true);
  const isReading = /^\s*select\b/i.test(text);
  const read = (values: Values): object[] => {
    if (!isReading) return statement.all(...toInput(values)).map(toRow);
    return readNumbers(statement, values) ?? statement.all(...toInput(values)).map(toRow);
  };
  return {
    reader: statement.columns().length > 0,
    all: (values) => named(() => read(values)),
    run: (values) => named(() => statement.run(...toInput(values))),
    *iterate(values) {
      for (const row of statement.iterate(...toInput(values))) yield toRow(row);
    },
  };
}

/** Several times as fast; null: one of them is no number of JavaScript. */
function readNumbers(statement: StatementSync, values: Values): object[] | null {
  statement.setReadBigInts(false);
  try {
    return statement.all(...toInput(values)).map((row) => ({ ...row }));
  } catch (error) {
    if (errorCode(error) !== 'ERR_OUT_OF_RANGE') throw error;
    return null;
  } finally {
    statement.setReadBigInts(true);
  }
}

function toInput(values: Values): SQLInputValue[] {
  return values.map((value) => (value === undefined ? null : (value as SQLInputValue)));
}

/** As better-sqlite3 gives it: a plain object, with numbers. */
function toRow(found: object): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(found)) {
    row[name] = typeof value === 'bigint' ? Number(value) : value;
  }
  return row;
}

/** Gives SQLite's errors the codes that better-sqlite3 gives them. */
function named<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { errcode } = error as { readonly errcode?: number };
    if (errcode !== undefined) Object.assign(error as Error, { code: sqliteErrorName(errcode) });
    throw error;
  }
}

/** The primary result codes, by their numbers from 1 on: https://sqlite.org/rescode.html. */
const primary = words(`
  ERROR INTERNAL PERM ABORT BUSY LOCKED NOMEM READONLY INTERRUPT IOERR CORRUPT NOTFOUND FULL CANTOPEN
  PROTOCOL EMPTY SCHEMA TOOBIG CONSTRAINT MISMATCH MISUSE NOLFS AUTH FORMAT RANGE NOTADB NOTICE WARNING`);

/** What the extended codes add, by the numbers in their higher bytes from 1 on. */
const extended: Readonly<Record<string, readonly string[]>> = {
  BUSY: words('RECOVERY SNAPSHOT TIMEOUT'),
  LOCKED: words('SHAREDCACHE VTAB'),
  READONLY: words('RECOVERY CANTLOCK ROLLBACK DBMOVED CANTINIT DIRECTORY'),
  IOERR: words(`
    READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM ACCESS
    CHECKRESERVEDLOCK LOCK CLOSE DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT MMAP
    GETTEMPPATH CONVPATH VNODE AUTH BEGIN_ATOMIC COMMIT_ATOMIC ROLLBACK_ATOMIC DATA CORRUPTFS IN_PAGE`),
  CORRUPT: words('VTAB SEQUENCE INDEX'),
  CANTOPEN: words('NOTEMPDIR ISDIR FULLPATH CONVPATH DIRTYWAL SYMLINK'),
  CONSTRAINT: words(`
    CHECK COMMITHOOK FOREIGNKEY FUNCTION NOTNULL PRIMARYKEY TRIGGER UNIQUE VTAB ROWID PINNED DATATYPE`),
};

/** The name of a result code: `SQLITE_BUSY`, `SQLITE_IOERR_WRITE`. */
export function sqliteErrorName(code: number): string {
  const name = primary[(code & 0xff) - 1] ?? `ERROR_${code}`;
  const more = extended[name]?.[(code >> 8) - 1];
  return more === undefined ? `SQLITE_${name}` : `SQLITE_${name}_${more}`;
}

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
