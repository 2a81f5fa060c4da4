import type { SqliteDatabase } from 'kysely';

export type DriverName = 'better-sqlite3' | 'node:sqlite';

/** An open database file, whichever driver opened it. Its errors have SQLite's names as `code`. */
export interface Connection extends SqliteDatabase {
  readonly driver: DriverName;
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

/** Opens a file that is there; none is ever made by opening it. */
export type OpenConnection = (path: string, options: ConnectionOptions) => Connection;

export interface Driver {
  readonly name: DriverName;
  readonly open: OpenConnection;
}
