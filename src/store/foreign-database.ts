import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { UsageError } from '../config/usage-error.ts';
import { orTold } from './foreign-failure.ts';
import type { Connection } from './sqlite/connection.ts';
import { findDriver } from './sqlite/load-driver.ts';
import { APPLICATION_ID, completeOpening, type Opening } from './sqlite/open-database.ts';

/** A row as SQLite gives it. */
export type ForeignRow = Readonly<Record<string, unknown>>;

/** Another program's SQLite file, as it is at one moment. */
export interface ForeignDatabase {
  /** Of a table or view; none: there is no such one. */
  columnsOf(table: string): string[];
  select(query: string): Iterable<ForeignRow>;
}

/**
 * Lets a file of another program be read, and nothing of it be changed.
 *
 * @throws {UsageError} when it cannot be read, or is no such file
 */
export async function readForeignDatabase<T>(
  path: string,
  read: (database: ForeignDatabase) => Promise<T>,
  options: Partial<Opening> = {},
): Promise<T> {
  const { driver, busyTimeoutMs: timeoutMs } = completeOpening(
    options.driver ?? (await findDriver()).driver,
    options,
  );
  const isLeftAlone = hasNoUser(path);
  const before = fingerprint(path);
  const access = isLeftAlone ? 'immutable' : 'read-only';
  const connection = orTold(path, () => driver.open(path, { timeoutMs, access }));
  try {
    orTold(path, () => begin(connection, path));
    const result = await read(openReader(connection, path));
    if (isLeftAlone && fingerprint(path) !== before) throw new UsageError(isInUse(path));
    return result;
  } finally {
    connection.close();
  }
}

/** One transaction, so that all is read as of one moment. */
function begin(connection: Connection, path: string): void {
  connection.exec('begin');
  if (Number(connection.pragma('application_id')) === APPLICATION_ID) {
    throw new UsageError(
      `${path} is an activity log of this runner, not the queue of another system.`,
    );
  }
  // SQLite takes what is missing of a file that was cut off for zeros.
  const answer = String(connection.pragma('quick_check(1)'));
  if (answer === 'ok') return;
  const message = answer.replaceAll('\n', ' ');
  throw Object.assign(new Error(message), { code: 'SQLITE_CORRUPT' });
}

function openReader(connection: Connection, path: string): ForeignDatabase {
  return {
    columnsOf: (table) => {
      const query = `select name from pragma_table_info(${quoteText(table)})`;
      return orTold(path, () => connection.prepare(query).all([])).map((row) =>
        String((row as ForeignRow).name),
      );
    },
    *select(query) {
      const rows = orTold(path, () => connection.prepare(query)).iterate([]);
      for (;;) {
        const { done, value } = orTold(path, () => rows.next());
        if (done) return;
        yield value as ForeignRow;
      }
    },
  };
}

/** As a name in SQL. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * With WAL, reading makes files beside the database, and leaves them there, unless SQLite is told
 * that nobody writes. Nobody does where its journal is empty or missing.
 */
function hasNoUser(path: string): boolean {
  const header = readHeader(path);
  const isWal = header[18] === 2 && header[19] === 2;
  return isWal && (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

const HEADER_BYTES = 100;
const START = 'SQLite format 3\0';

/** Not for the log of this process: closing the file would drop SQLite's locks on it. */
function readHeader(path: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  orTold(path, () => {
    const fd = openSync(path, 'r');
    try {
      readSync(fd, header);
    } finally {
      closeSync(fd);
    }
  });
  if (header.toString('latin1', 0, START.length) === START) return header;
  throw new UsageError(`${path} is no SQLite database.`);
}

function fingerprint(path: string): string {
  const files = [path, `${path}-wal`];
  return files
    .map((file) => statSync(file, { throwIfNoEntry: false, bigint: true }))
    .map((stats) => `${stats?.size ?? 0n} ${stats?.mtimeNs ?? 0n}`)
    .join(', ');
}

function isInUse(path: string): string {
  return `${path} was written to while it was read; stop the programs that use it, then try again.`;
}
