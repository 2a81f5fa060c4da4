import { createRequire } from 'node:module';
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type SqliteDatabase from 'better-sqlite3';
import type { SqliteDatabase as KyselyDatabase, SqliteStatement } from 'kysely';
import { errorCode } from '../../system/base/errors.ts';

export type DriverName = 'better-sqlite3' | 'node:sqlite';

/** An open database file, whichever driver opened it. Its errors have SQLite's names as `code`. */
export interface Connection extends KyselyDatabase {
  readonly driver: DriverName;
  /** How long SQLite waited for a lock when it was opened. */
  readonly timeoutMs: number;
  /** SQLite ends a transaction by itself when it meets a full disk, for example. */
  readonly inTransaction: boolean;
  exec(statements: string): void;
  /** The one value that a pragma answers with. */
  pragma(text: string): unknown;
}

export interface ConnectionOptions {
  /** How long SQLite waits for a lock. */
  readonly timeoutMs: number;
  /** `immutable`: nobody writes meanwhile; no lock is taken and no file is made beside it. */
  readonly access?: 'read-write' | 'read-only' | 'immutable';
}

export interface Driver {
  readonly name: DriverName;
  /** Opens a file that is there; none is ever made by opening it. */
  readonly open: (path: string, options: ConnectionOptions) => Connection;
}

/** The driver of this process, and what there was to be said against the better one. */
interface FoundDriver {
  readonly driver: Driver;
  /** Why better-sqlite3 cannot be used; null: it can, or nobody asked. */
  readonly reasonAgainstBetter: string | null;
}

// One for the whole process: two drivers on one file do not see each other's locks.
let found: FoundDriver | undefined;
let prefersNodes = false;

/**
 * For a process that asks the log little: Node's own SQLite is there already, where better-sqlite3 takes a
 * quarter of a bare Node's start to load. It is slower at each row.
 */
export function preferNodesOwn(): void {
  prefersNodes = true;
}

/**
 * better-sqlite3, else `node:sqlite`; the other way round where that is preferred.
 *
 * @throws when neither can be loaded
 */
export async function findDriver(): Promise<FoundDriver> {
  found ??= loadDriver();
  return found;
}

function loadDriver(): FoundDriver {
  const nodes = prefersNodes ? loadNodesOwn() : null;
  if (nodes !== null) return { driver: nodes, reasonAgainstBetter: null };
  try {
    return { driver: loadBetterSqlite3(), reasonAgainstBetter: null };
  } catch (error) {
    return loadOther(firstLine(error));
  }
}

/** Null: this Node has none. If better-sqlite3 is missing as well, `loadOther` says why. */
function loadNodesOwn(): Driver | null {
  try {
    return loadNodeSqlite();
  } catch {
    return null;
  }
}

function loadOther(reasonAgainstBetter: string): FoundDriver {
  try {
    return { driver: loadNodeSqlite(), reasonAgainstBetter };
  } catch (error) {
    const message = `better-sqlite3: ${reasonAgainstBetter}; ${firstLine(error)}`;
    throw Object.assign(new Error(message), { code: 'ERR_NO_SQLITE' });
  }
}

/** Node lists, below it, who wanted the module. */
function firstLine(error: unknown): string {
  return (error as Error).message.split('\n', 1)[0] as string;
}

type BetterSqlite = typeof SqliteDatabase;

/** The path of that file, if the package is bundled into one file; tsdown.config.ts puts it in. */
declare const BETTER_SQLITE3: string | undefined;

/**
 * The driver with its native binary really loaded.
 *
 * @throws whatever keeps the package or its binary from being loaded: too old a glibc, for example
 */
export function loadBetterSqlite3(): Driver {
  const name = typeof BETTER_SQLITE3 === 'undefined' ? 'better-sqlite3' : BETTER_SQLITE3;
  const Sqlite = createRequire(import.meta.filename)(name) as BetterSqlite;
  // The binary is not loaded before the first database.
  new Sqlite(IN_MEMORY).close();
  return {
    name: 'better-sqlite3',
    open: (path, options) => openBetterSqlite3(Sqlite, path, options),
  };
}

/**
 * Node's own opens what is `immutable`: better-sqlite3 takes URIs only where the environment said so before
 * anything in this process loaded its binary. No lock is held on such a file, so none can be lost.
 */
function openBetterSqlite3(Sqlite: BetterSqlite, path: string, options: ConnectionOptions): Connection {
  const { timeoutMs: timeout, access = 'read-write' } = options;
  const nodes = access === 'immutable' ? loadNodesOwn() : null;
  if (nodes !== null) return nodes.open(path, options);
  return wrap(new Sqlite(path, { timeout, fileMustExist: true, readonly: access !== 'read-write' }), timeout);
}

function wrap(database: SqliteDatabase.Database, timeoutMs: number): Connection {
  return {
    driver: 'better-sqlite3',
    timeoutMs,
    get inTransaction() {
      return database.inTransaction;
    },
    prepare: (statement) => database.prepare(statement),
    exec: (statements) => void database.exec(statements),
    pragma: (text) => database.pragma(text, { simple: true }),
    close: () => void database.close(),
  };
}

type NodeSqlite = typeof DatabaseSync;
type Values = readonly unknown[];

/**
 * Node's own SQLite, for a process that asks little, and where better-sqlite3's binary cannot be loaded.
 *
 * @throws when this Node has none, or was told not to have it
 */
export function loadNodeSqlite(): Driver {
  const Sqlite = withoutSqliteWarning(loadModule);
  return {
    name: 'node:sqlite',
    open: (path, options) =>
      wrapNodeDatabase(
        named(() => openNodeDatabase(Sqlite, path, options)),
        options,
      ),
  };
}

function loadModule(): NodeSqlite {
  const module = process.getBuiltinModule('node:sqlite') as
    | { readonly Database?: NodeSqlite; readonly DatabaseSync: NodeSqlite }
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

const IN_MEMORY = ':memory:';

function openNodeDatabase(
  Sqlite: NodeSqlite,
  path: string,
  { timeoutMs, access = 'read-write' }: ConnectionOptions,
): DatabaseSync {
  if (path === IN_MEMORY) return new Sqlite(path);
  const place = pathToFileURL(path);
  // Without it SQLite makes the file when it is missing.
  if (access === 'read-write') place.searchParams.set('mode', 'rw');
  if (access === 'immutable') place.searchParams.set('immutable', '1');
  return new Sqlite(place, { timeout: timeoutMs, readOnly: access !== 'read-write' });
}

function wrapNodeDatabase(database: DatabaseSync, { timeoutMs }: ConnectionOptions): Connection {
  const prepare = (text: string): SqliteStatement => wrapStatement(database.prepare(text), text);
  return {
    driver: 'node:sqlite',
    timeoutMs,
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
  // Without this, a number beyond 2^53 is an error, and better-sqlite3 rounds it.
  statement.setReadBigInts(true);
  const isReading = /^\s*select\b/i.test(text);
  const read = (values: Values): object[] => {
    if (!isReading) return statement.all(...toInput(values)).map(toRow);
    return readNumbers(statement, values) ?? statement.all(...toInput(values)).map(toRow);
  };
  return {
    // Not before somebody asks: it describes every column.
    get reader() {
      return statement.columns().length > 0;
    },
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

/** The suffixes of extended codes, by the numbers in their higher bytes from 1 on. */
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

/** A name as SQL takes it, whatever it contains. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
