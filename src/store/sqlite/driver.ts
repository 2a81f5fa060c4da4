import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type SqliteDatabase from 'better-sqlite3';
import type { Connection, ConnectionOptions, Driver } from './connection.ts';

/** The driver of this process, and what there was to be said against the better one. */
interface FoundDriver {
  readonly driver: Driver;
  /** Why it is not better-sqlite3; null: it is. */
  readonly reasonAgainstBetter: string | null;
}

// One for the whole process: two drivers on one file do not see each other's locks.
let found: FoundDriver | undefined;

/**
 * better-sqlite3, else `node:sqlite`.
 *
 * @throws when neither can be loaded
 */
export async function findDriver(): Promise<FoundDriver> {
  found ??= await loadDriver();
  return found;
}

async function loadDriver(): Promise<FoundDriver> {
  try {
    return { driver: loadBetterSqlite3(), reasonAgainstBetter: null };
  } catch (error) {
    return await loadOther(firstLine(error));
  }
}

async function loadOther(reasonAgainstBetter: string): Promise<FoundDriver> {
  const { loadNodeSqlite } = await import('./node-sqlite.ts');
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

type Sqlite = typeof SqliteDatabase;

/** Where the package is bundled into one file, that file; tsdown.config.ts puts it in. */
declare const BETTER_SQLITE3: string | undefined;

/**
 * The driver with its native binary really loaded.
 *
 * @throws whatever keeps the package or its binary from being loaded: too old a glibc, for example
 */
export function loadBetterSqlite3(): Driver {
  const name = typeof BETTER_SQLITE3 === 'undefined' ? 'better-sqlite3' : BETTER_SQLITE3;
  const Sqlite = createRequire(import.meta.filename)(name) as Sqlite;
  takingUris(() => {
    // The binary is not loaded before the first database.
    new Sqlite(':memory:').close();
  });
  return {
    name: 'better-sqlite3',
    open: (path, options) => wrap(openDatabase(Sqlite, path, options)),
  };
}

/** Its binary looks once, when it is loaded, whether it may; there is no other way to say `immutable`. */
function takingUris(load: () => void): void {
  const { SQLITE_USE_URI: before } = process.env;
  process.env.SQLITE_USE_URI = '1';
  try {
    load();
  } finally {
    if (before === undefined) delete process.env.SQLITE_USE_URI;
    else process.env.SQLITE_USE_URI = before;
  }
}

function openDatabase(
  Sqlite: Sqlite,
  path: string,
  { timeoutMs, access }: ConnectionOptions,
): SqliteDatabase.Database {
  const isWritable = access === undefined || access === 'read-write';
  const place = access === 'immutable' ? `${pathToFileURL(path)}?immutable=1` : path;
  return new Sqlite(place, { timeout: timeoutMs, fileMustExist: true, readonly: !isWritable });
}

function wrap(database: SqliteDatabase.Database): Connection {
  return {
    driver: 'better-sqlite3',
    get inTransaction() {
      return database.inTransaction;
    },
    prepare: (statement) => database.prepare(statement),
    exec: (statements) => void database.exec(statements),
    pragma: (text) => database.pragma(text, { simple: true }),
    close: () => void database.close(),
  };
}
