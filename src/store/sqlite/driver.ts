import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type SqliteDatabase from 'better-sqlite3';
import type { Connection, ConnectionOptions, Driver } from './connection.ts';
import { loadNodeSqlite } from './node-sqlite.ts';

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

/** Null: this Node has none. Then better-sqlite3 is asked, and whoever has neither is told why. */
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
