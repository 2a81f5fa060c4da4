import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { SqliteStatement } from 'kysely';
import type { Connection, ConnectionOptions, Driver } from './connection.ts';
import { sqliteErrorName } from './sqlite-error-name.ts';

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
  const prepare = (text: string): SqliteStatement => wrapStatement(database.prepare(text));
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

function wrapStatement(statement: StatementSync): SqliteStatement {
  // Else a number beyond 2^53 is an error, and better-sqlite3 rounds it.
  statement.setReadBigInts(true);
  return {
    reader: statement.columns().length > 0,
    all: (values) => named(() => statement.all(...toInput(values)).map(toRow)),
    run: (values) => named(() => statement.run(...toInput(values))),
    *iterate(values) {
      for (const row of statement.iterate(...toInput(values))) yield toRow(row);
    },
  };
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
